"""Exports of a person's data: requested, prepared in the background, and available for a week."""

import base64
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Table, select, update
from sqlalchemy.orm import Session

from marketplace.identity.operations import lock_profile
from marketplace.infra import outbox
from marketplace.infra.db import Database
from marketplace.infra.encryption import derive_secret
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.media import documents
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import say
from marketplace.privacy import texts
from marketplace.privacy.archive import write_archive
from marketplace.privacy.models import PrivacyExport
from marketplace.providers.storage import ObjectStorage

STATUSES = ("requested", "processing", "ready", "expired", "failed")
TOPIC = "privacy.export-requested"
LIFETIME = timedelta(days=7)
# An export that is not ready after this time has failed.
DEADLINE = timedelta(hours=24)
_FOLDER = "exports"
_NONCE_BYTES = 32
_PASSPHRASE_BYTES = 20
_GROUP_LENGTH = 4


class ExportInProgressError(ConflictError):
    """The person has another export in progress."""

    reason = "export-in-progress"


class ExportNotAvailableError(ConflictError):
    """The export is not ready yet, has expired, or has failed."""

    reason = "export-not-available"


@dataclass(frozen=True)
class RequestedExport:
    """A new export. The passphrase is shown once."""

    id: UUID
    status: str
    passphrase: str


def request_export(session: Session, *, user_id: UUID, now: datetime) -> RequestedExport:
    """Request an export of a person's data.

    :raises ExportInProgressError: another export of the person is in progress
    """
    lock_profile(session, user_id=user_id)
    is_open = select(PrivacyExport.id).where(
        PrivacyExport.user_id == user_id, PrivacyExport.status.in_(("requested", "processing"))
    )
    if session.scalar(is_open) is not None:
        raise ExportInProgressError(texts.EXPORT_IN_PROGRESS)
    export = PrivacyExport(user_id=user_id, nonce=secrets.token_bytes(_NONCE_BYTES), requested_at=now)
    session.add(export)
    session.flush()
    outbox.enqueue(
        session,
        queue=queues.NOTIFICATIONS,
        topic=TOPIC,
        payload={"exportId": str(export.id)},
        due_at=now,
    )
    return RequestedExport(export.id, export.status, derive_passphrase(export))


def derive_passphrase(export: PrivacyExport) -> str:
    """Derive the passphrase of an export from the service's key, the export's id and its nonce.

    The passphrase survives a crash of the job, and nobody can derive it after the nonce is deleted.

    :raises ValueError: the nonce is deleted
    """
    if export.nonce is None:
        raise ValueError("the passphrase of a finished export cannot be derived")
    digest = derive_secret(f"{export.id}:{export.nonce.hex()}", "privacy_exports.passphrase")
    letters = base64.b32encode(digest[:_PASSPHRASE_BYTES]).decode()
    return "-".join(letters[start : start + _GROUP_LENGTH] for start in range(0, len(letters), _GROUP_LENGTH))


def list_exports(session: Session, *, user_id: UUID, page: PageRequest) -> Page:
    """List the exports of a person, the latest first."""
    query = select(PrivacyExport).where(PrivacyExport.user_id == user_id)
    [before] = page.after("id")
    if before is not None:
        query = query.where(PrivacyExport.id < before)
    rows = session.scalars(query.order_by(PrivacyExport.id.desc()).limit(page.limit + 1))
    return page_of(list(rows), request=page, position_of=lambda export: [str(export.id)])


def archive_link(
    session: Session,
    storage: ObjectStorage,
    *,
    bucket: str,
    export_id: UUID,
    user_id: UUID,
    now: datetime,
) -> str:
    """Return a link of a minute to the archive.

    :raises NotFoundError: the export does not exist, or belongs to another person
    :raises ExportNotAvailableError: the export is not ready, has expired, or has failed
    """
    export = found(
        session.scalar(
            select(PrivacyExport).where(PrivacyExport.id == export_id, PrivacyExport.user_id == user_id)
        ),
        "Export not found.",
    )
    if export.status in ("requested", "processing"):
        raise ExportNotAvailableError(texts.EXPORT_NOT_READY)
    if export.status == "failed":
        raise ExportNotAvailableError(texts.EXPORT_FAILED)
    if export.document_id is None or export.expires_at is None or export.expires_at <= now:
        raise ExportNotAvailableError(texts.EXPORT_EXPIRED)
    return documents.document_link(session, storage, bucket=bucket, document_id=export.document_id)


def prepare_export(
    database: Database,
    storage: ObjectStorage,
    *,
    tables: Mapping[str, Table],
    public_bucket: str,
    private_bucket: str,
    export_id: UUID,
    now: datetime,
) -> LastPhase | None:
    """Write and store the archive. A repeated call begins anew, with the same passphrase.

    :param tables: all tables of the models by name
    :return: the last phase, which makes the archive available; none if the export is finished already
    :raises ProviderUnavailableError: the storage failed; the event runs again
    """
    with database.transaction() as session:
        export = session.scalar(
            update(PrivacyExport)
            .where(PrivacyExport.id == export_id, PrivacyExport.status.in_(("requested", "processing")))
            .values(status="processing")
            .returning(PrivacyExport)
        )
        if export is None:
            return None
        user_id, passphrase = export.user_id, derive_passphrase(export)
    with tempfile.TemporaryFile() as file:
        with database.transaction() as session:
            content = write_archive(
                session,
                storage,
                tables=tables,
                user_id=user_id,
                passphrase=passphrase,
                public_bucket=public_bucket,
                private_bucket=private_bucket,
                into=file,
            )
        checked = documents.CheckedFile(file, "application/zip", "zip")
        document_id = documents.store_file(
            database, storage, bucket=private_bucket, folder=_FOLDER, checked=checked, now=now
        )
        byte_count = checked.byte_count

    def finish(session: Session, *, now: datetime) -> None:
        documents.complete_upload(session, document_id=document_id)
        documents.release_document(session, document_id=document_id, keep_until=now + LIFETIME)
        finished = session.scalar(
            update(PrivacyExport)
            .where(PrivacyExport.id == export_id, PrivacyExport.status == "processing")
            .values(
                status="ready",
                nonce=None,
                document_id=document_id,
                byte_count=byte_count,
                row_count=sum(content.rows.values()),
                ready_at=now,
                expires_at=now + LIFETIME,
            )
            .returning(PrivacyExport.id)
        )
        if finished is None:
            # The export has failed meanwhile, or the person is erased.
            documents.release_document(session, document_id=document_id, keep_until=now)
        else:
            notify(
                session,
                user_id=user_id,
                type="export_ready",
                title=say(texts.EXPORT_READY_TITLE),
                body=say(texts.EXPORT_READY_BODY),
                link="/account/privacy",
                cause=f"export:{export_id}:ready",
                now=now,
            )

    return finish


def expire_exports(session: Session, *, now: datetime) -> int:
    """Mark exports whose time has passed. The archive is deleted by the sweep of documents.

    :return: the number of expired and failed exports
    """
    expired = session.scalars(
        update(PrivacyExport)
        .where(PrivacyExport.status == "ready", PrivacyExport.expires_at <= now)
        .values(status="expired")
        .returning(PrivacyExport.id)
    ).all()
    failed = session.execute(
        update(PrivacyExport)
        .where(
            PrivacyExport.status.in_(("requested", "processing")),
            PrivacyExport.requested_at <= now - DEADLINE,
        )
        .values(status="failed", nonce=None)
        .returning(PrivacyExport.id, PrivacyExport.user_id)
    ).all()
    for export_id, user_id in failed:
        notify(
            session,
            user_id=user_id,
            type="export_failed",
            title=say(texts.EXPORT_FAILED_TITLE),
            body=say(texts.EXPORT_FAILED_BODY),
            link="/account/privacy",
            cause=f"export:{export_id}:failed",
            now=now,
        )
    return len(expired) + len(failed)
