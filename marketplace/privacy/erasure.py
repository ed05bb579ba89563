"""Erasures: start by an officer, run in batches by a worker, and end with a signed receipt.

The first transaction closes the account, so that no new rows of the person appear. Every later step can be repeated,
so a worker that is killed leaves nothing undone: the next run does all steps again and finds less to do.
"""

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.audit.person_keys import destroy_keys, owner_of_contact
from marketplace.audit.signatures import is_signed, public_key_pem, sign_document
from marketplace.idempotency.models import IdempotencyKey
from marketplace.identity.models import NEW_REFERRAL_CODE, DeletionRequest, ErasedIdentity, Profile
from marketplace.infra import outbox
from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, found
from marketplace.media.documents import erase_documents
from marketplace.media.image_cleanup import erase_images
from marketplace.people.account_status import close_account, lock_profile
from marketplace.privacy import texts
from marketplace.privacy.deletion import end_request
from marketplace.privacy.erasure_plans import compose_plan, ensure_not_erased, ensure_other_person
from marketplace.privacy.erasure_steps import STEPS, ClearColumns, DeleteRows
from marketplace.privacy.models import ErasureExecution, ErasurePlan, PrivacyExport
from marketplace.providers.identity_accounts import IdentityAccounts
from marketplace.providers.storage import ObjectStorage
from marketplace.support.models import SupportContact

TOPIC = "privacy.erasure-started"
_FOLDER = "erasures"
RECEIPT_PREFIX = f"{_FOLDER}/"
STATUSES = ("running", "finished")
BATCH_ROWS = 250
# A batch takes one part of the time and the pause twelve, so most requests meet no batch.
_PAUSE_RATIO = 12.0
# A job that takes longer ends, and a new job goes on, so that a worker can stop at any time.
_RUN_SECONDS = 10.0
_STATEMENT_SECONDS = 60
_MAX_RECEIPT_BYTES = 1_000_000


class PlanChangedError(ConflictError):
    """The hash is not the hash of the plan, or the person's data changed since the plan."""

    reason = "erasure-plan-changed"


class ErasureBlockedError(ConflictError):
    """Open cases or money block the erasure."""

    reason = "erasure-blocked"


@dataclass(frozen=True)
class StoredFiles:
    """The storage of files, with the names of its buckets."""

    storage: ObjectStorage
    public_bucket: str
    private_bucket: str


def start_erasure(
    session: Session, *, tables: Mapping[str, Table], plan_id: UUID, plan_hash: str, act: Act
) -> ErasureExecution:
    """Start the erasure of a plan. A repeated call returns the same execution.

    :param tables: all tables of the models by name
    :param plan_hash: the hash that the officer read
    :raises NotFoundError: the plan does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises PlanChangedError: the hash is wrong, or the person's data changed since the plan
    :raises AccountAlreadyErasedError: another plan of the person was executed
    :raises ErasureBlockedError: open cases or money block the erasure
    """
    plan = found(session.get(ErasurePlan, plan_id), texts.PLAN_NOT_FOUND)
    ensure_other_person(plan.user_id, act)
    profile = lock_profile(session, user_id=plan.user_id)
    if plan_hash != plan.content_hash:
        raise PlanChangedError(texts.PLAN_HASH_WRONG)
    earlier = session.scalar(select(ErasureExecution).where(ErasureExecution.plan_id == plan_id))
    if earlier is not None:
        return earlier
    ensure_not_erased(profile)
    current = compose_plan(session, tables=tables, user_id=plan.user_id, now=act.now)
    if current.blockers:
        raise ErasureBlockedError(texts.ERASURE_BLOCKED, extensions={"blockers": current.blockers})
    if current.hash != plan.content_hash:
        raise PlanChangedError(texts.PLAN_CHANGED)
    execution = ErasureExecution(
        user_id=plan.user_id,
        plan_id=plan_id,
        executed_by=act.person_id,
        tables=plan.tables,
        started_at=act.now,
    )
    _begin(session, profile, execution, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="privacy.erasure-executed",
        target_type="profile",
        target_id=str(plan.user_id),
        after={"planId": str(plan_id), "hash": plan_hash, "executionId": str(execution.id)},
    )
    return execution


def show_execution(session: Session, *, execution_id: UUID) -> ErasureExecution:
    """Return an execution with its progress, and the receipt after the end.

    :raises NotFoundError: the execution does not exist
    """
    return found(session.get(ErasureExecution, execution_id), texts.EXECUTION_NOT_FOUND)


def run_erasure(
    database: Database,
    files: StoredFiles,
    accounts: IdentityAccounts | None,
    *,
    tables: Mapping[str, Table],
    execution_id: UUID,
    now: datetime,
) -> LastPhase | None:
    """Erase rows and files for some seconds.

    :param accounts: the accounts at the identity provider; none if another system deletes them
    :param tables: all tables of the models by name
    :return: the last phase: a further job, or the receipt; none if the erasure is finished already
    :raises ProviderUnavailableError: the storage or the identity provider failed; the job runs again
    :raises ProviderRefusedError: the identity provider refused the deletion; the job runs again
    """
    with database.reading() as session:
        execution = session.get(ErasureExecution, execution_id)
    if execution is None or execution.status == "finished":
        return None
    until = time.monotonic() + _RUN_SECONDS
    if not _run_steps(database, execution, tables, until):
        return _continue_with(execution_id)
    _erase_files(database, files, execution, now)
    if accounts is not None:
        accounts.delete(execution.user_id)
    with database.reading() as session:
        erased = session.get_one(ErasureExecution, execution_id)
    receipt = _make_receipt(erased, is_account_deleted=accounts is not None, now=now)
    # The list of receipts outlives a restored database.
    files.storage.put(
        bucket=files.private_bucket,
        key=f"{RECEIPT_PREFIX}{execution_id}.json",
        content=orjson.dumps(receipt),
        content_type="application/json",
    )

    def finish(session: Session, *, now: datetime) -> None:
        session.execute(
            update(ErasureExecution)
            .where(ErasureExecution.id == execution_id, ErasureExecution.status == "running")
            .values(status="finished", receipt=receipt, finished_at=now)
        )

    return finish


def read_receipts(files: StoredFiles) -> list[dict[str, Any]]:
    """Read the receipts of all erasures from the storage, and skip objects without a valid signature.

    :raises ProviderUnavailableError: the storage failed
    """
    receipts, public_key = [], public_key_pem()
    for key in files.storage.list_keys(bucket=files.private_bucket, prefix=RECEIPT_PREFIX):
        content = io.BytesIO()
        files.storage.download(
            bucket=files.private_bucket, key=key, into=content, max_bytes=_MAX_RECEIPT_BYTES
        )
        try:
            receipt = orjson.loads(content.getvalue())
        except orjson.JSONDecodeError:
            continue
        if isinstance(receipt, dict) and is_signed(receipt, public_key=public_key):
            receipts.append(receipt)
    return receipts


def reapply_erasure(session: Session, *, receipt: Mapping[str, Any], now: datetime) -> bool:
    """Start the erasure of a receipt again, after the database was restored from an older backup.

    A person who is missing in the backup cannot come back either.

    :param receipt: from ``read_receipts``
    :return: whether an erasure was started
    """
    user_id = UUID(receipt["userId"])
    _insert_tombstone(session, user_id, now=now)
    profile = session.get(Profile, user_id, with_for_update={"key_share": True}, populate_existing=True)
    if profile is None or profile.erased_at is not None:
        return False
    _begin(
        session,
        profile,
        ErasureExecution(user_id=user_id, tables=list(receipt["tables"]), started_at=now),
        now=now,
    )
    return True


def _begin(session: Session, profile: Profile, execution: ErasureExecution, *, now: datetime) -> None:
    """Close the account, clear the profile, and enqueue the job."""
    session.add(execution)
    session.flush()
    senders = session.scalars(select(SupportContact.sender).where(SupportContact.profile_id == profile.id))
    owners = [profile.id, *map(owner_of_contact, senders)]
    _insert_tombstone(session, profile.id, now=now)
    pending = select(DeletionRequest).where(
        DeletionRequest.user_id == profile.id, DeletionRequest.status == "pending"
    )
    request = session.scalar(pending)
    if request is not None:
        end_request(session, request=request, status="executed", now=now)
    close_account(session, profile=profile, now=now)
    _clear_profile(session, profile.id, now=now)
    destroy_keys(session, owners)
    _enqueue(session, execution.id, now=now)


def _insert_tombstone(session: Session, user_id: UUID, *, now: datetime) -> None:
    session.execute(
        insert(ErasedIdentity)
        .values(subject_index=str(user_id), erased_at=now)
        .on_conflict_do_nothing(index_elements=["subject_index"])
    )


def _clear_profile(session: Session, user_id: UUID, *, now: datetime) -> None:
    """Empty the profile, whose id stays as the pseudonym of retained rows."""
    session.flush()
    session.execute(
        update(Profile)
        .where(Profile.id == user_id)
        .values(
            email=None,
            name=None,
            phone=None,
            phone_index=None,
            phone_verified_at=None,
            campus_id=None,
            avatar_url=None,
            avatar_image_id=None,
            avatar_key=None,
            role="buyer",
            staff_role=None,
            language="en",
            badges=[],
            status_reason=None,
            referral_code=NEW_REFERRAL_CODE,
            referral_pending=False,
            notification_preferences={},
            erased_at=now,
        ),
        execution_options={"synchronize_session": False},
    )
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.caller == str(user_id)))
    session.expire_all()


def _enqueue(session: Session, execution_id: UUID, *, now: datetime) -> None:
    outbox.enqueue(
        session,
        queue=queues.NOTIFICATIONS,
        topic=TOPIC,
        payload={"executionId": str(execution_id)},
        due_at=now,
    )


def _continue_with(execution_id: UUID) -> LastPhase:
    def enqueue_next(session: Session, *, now: datetime) -> None:
        _enqueue(session, execution_id, now=now)

    return enqueue_next


def _run_steps(
    database: Database, execution: ErasureExecution, tables: Mapping[str, Table], until: float
) -> bool:
    """Run all steps until a pass finds nothing, and return false if the time is over before."""
    while True:
        changed = 0
        for step in STEPS:
            table = tables[step.table]
            keys = _read_keys(database, table, step, execution.user_id)
            for start in range(0, len(keys), BATCH_ROWS):
                if time.monotonic() >= until:
                    return False
                batch_started = time.monotonic()
                changed += database.in_transaction(
                    _run_batch,
                    table=table,
                    step=step,
                    keys=keys[start : start + BATCH_ROWS],
                    execution_id=execution.id,
                )
                time.sleep((time.monotonic() - batch_started) * _PAUSE_RATIO)
        if not changed:
            return True


def _read_keys(
    database: Database, table: Table, step: DeleteRows | ClearColumns, user_id: UUID
) -> Sequence[Any]:
    """Read the primary keys of all rows that a step still changes."""
    aliased = table.alias("t")
    conditions: list[ColumnElement[bool]] = [text(f"({step.condition})")]  # type: ignore[list-item]
    if isinstance(step, ClearColumns):
        conditions.append(or_(*(_differs(aliased.c[name], step.values[name]) for name in step.compared)))
    query = select(*(aliased.c[column.name] for column in table.primary_key.columns)).where(and_(*conditions))
    with database.transaction() as session:
        allow_long_statements(session, seconds=_STATEMENT_SECONDS)
        return session.execute(query, {"user_id": user_id}).all()


def _differs(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    return column.is_not(None) if value is None else column.is_distinct_from(value)


def _run_batch(
    session: Session,
    *,
    table: Table,
    step: DeleteRows | ClearColumns,
    keys: Sequence[Any],
    execution_id: UUID,
) -> int:
    """Delete or clear rows, and count the rows in the same transaction."""
    matching = tuple_(*table.primary_key.columns).in_([tuple(key) for key in keys])
    if isinstance(step, DeleteRows):
        result = session.execute(delete(table).where(matching))
    else:
        result = session.execute(update(table).where(matching).values(dict(step.values)))
    count: int = result.rowcount  # type: ignore[attr-defined]
    counted = func.coalesce(ErasureExecution.erased_rows[table.name].as_integer(), 0) + count
    session.execute(
        update(ErasureExecution)
        .where(ErasureExecution.id == execution_id)
        .values(
            erased_rows=func.jsonb_set(
                ErasureExecution.erased_rows, [table.name], func.to_jsonb(counted), True
            )
        ),
        execution_options={"synchronize_session": False},
    )
    return count


_SELECT_DOCUMENTS = text(
    """
    SELECT d.id FROM private_documents d
    WHERE (d.owner_id = :user_id OR d.id IN (
            SELECT e.document_id FROM privacy_exports e WHERE e.user_id = :user_id AND e.document_id IS NOT NULL))
        AND NOT EXISTS (SELECT FROM dispute_evidence v WHERE v.document_id = d.id OR v.poster_id = d.id)
    """
)


def _erase_files(database: Database, files: StoredFiles, execution: ErasureExecution, now: datetime) -> None:
    with database.reading() as session:
        document_ids = session.scalars(_SELECT_DOCUMENTS, {"user_id": execution.user_id}).all()
    documents = erase_documents(
        database, files.storage, bucket=files.private_bucket, document_ids=document_ids
    )
    images = erase_images(
        database, files.storage, bucket=files.public_bucket, owner_id=execution.user_id, now=now
    )
    with database.transaction() as session:
        session.execute(delete(PrivacyExport).where(PrivacyExport.user_id == execution.user_id))
    counts = {name: count for name, count in (("private_documents", documents), ("images", images)) if count}
    if counts:
        with database.transaction() as session:
            row = session.get_one(ErasureExecution, execution.id, with_for_update=True)
            row.erased_rows = row.erased_rows | {
                name: row.erased_rows.get(name, 0) + count for name, count in counts.items()
            }


def _make_receipt(execution: ErasureExecution, *, is_account_deleted: bool, now: datetime) -> dict[str, Any]:
    """Return the signed receipt. It has ids and counts, and no personal data."""
    return sign_document(
        {
            "kind": "erasure",
            "executionId": str(execution.id),
            "planId": str(execution.plan_id) if execution.plan_id else None,
            "userId": str(execution.user_id),
            "executedBy": str(execution.executed_by) if execution.executed_by else None,
            "startedAt": execution.started_at.isoformat(),
            "finishedAt": now.isoformat(),
            "tables": execution.tables,
            "erasedRows": dict(execution.erased_rows),
            "identityAccountDeleted": is_account_deleted,
        }
    )
