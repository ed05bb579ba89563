"""Plans of erasures: the rows of a person by table, with treatment, reason and end, and the blockers."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Table, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import Profile
from marketplace.infra.db import allow_long_statements
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, found
from marketplace.privacy import texts
from marketplace.privacy.blockers import find_blockers
from marketplace.privacy.erasure_steps import STEPS, ClearColumns
from marketplace.privacy.models import ErasurePlan
from marketplace.privacy.register import PERSONAL_TABLES
from marketplace.privacy.rules import OnErasure

# The service itself adds and changes these rows at any time, so they do not make a plan stale.
_VOLATILE = frozenset(
    {
        *("notification_delivery_logs", "notifications", "erasure_plans"),
        *("search_documents", "store_days", "store_product_days", "vendor_profiles"),
    }
)
_STATEMENT_SECONDS = 120


class AccountAlreadyErasedError(ConflictError):
    """The person is erased, or the erasure is running."""

    reason = "account-already-erased"


@dataclass(frozen=True)
class PlanContent:
    """The content of a plan, and its hash."""

    content: dict[str, Any]
    hash: str

    @property
    def blockers(self) -> list[dict[str, Any]]:
        """The reasons that block the erasure."""
        blockers: list[dict[str, Any]] = self.content["blockers"]
        return blockers


def make_plan(session: Session, *, tables: Mapping[str, Table], user_id: UUID, act: Act) -> ErasurePlan:
    """Make a plan of an erasure, also if blockers exist.

    :param tables: all tables of the models by name
    :raises NotFoundError: the person does not exist
    :raises ConflictOfInterestError: the person is the officer
    :raises AccountAlreadyErasedError: the person is erased, or the erasure is running
    """
    ensure_other_person(user_id, act)
    profile = found(session.get(Profile, user_id), texts.PERSON_NOT_FOUND)
    ensure_not_erased(profile)
    made = compose_plan(session, tables=tables, user_id=user_id, now=act.now)
    plan = ErasurePlan(
        user_id=user_id,
        content=made.content,
        content_hash=made.hash,
        created_by=act.person_id,
        created_at=act.now,
    )
    session.add(plan)
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="privacy.erasure-planned",
        target_type="profile",
        target_id=str(user_id),
        after={"planId": str(plan.id), "hash": made.hash, "blockers": len(made.blockers)},
    )
    return plan


def compose_plan(
    session: Session, *, tables: Mapping[str, Table], user_id: UUID, now: datetime
) -> PlanContent:
    """Count the person's rows and find the blockers.

    The hash covers the content and a fingerprint of the rows. A plan made later has the same hash until a row changes.

    :param now: the time of the plan; the ends of retained rows count from its day
    """
    allow_long_statements(session, seconds=_STATEMENT_SECONDS)
    cleared: dict[str, set[str]] = {}
    for step in STEPS:
        if isinstance(step, ClearColumns):
            cleared.setdefault(step.table, set()).update(step.values)
    entries, fingerprints = [], {}
    for name in PERSONAL_TABLES:
        count, fingerprint = _count_rows(session, tables[name], user_id)
        entries.append(_entry(name, count, sorted(cleared.get(name, ())), now))
        if name not in _VOLATILE:
            fingerprints[name] = [count, fingerprint]
    blockers = [
        {
            "kind": blocker.kind,
            "count": blocker.count,
            "amountMinor": blocker.amount_minor,
            "detail": blocker.detail,
        }
        for blocker in find_blockers(session, user_id=user_id, now=now)
    ]
    content = {"tables": entries, "blockers": blockers}
    stable = {"userId": str(user_id), "rows": fingerprints, "blockers": blockers}
    digest = hashlib.sha256(orjson.dumps(stable, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return PlanContent(content, digest)


def ensure_other_person(user_id: UUID, act: Act) -> None:
    """Check that an officer does not decide about the own data.

    :raises ConflictOfInterestError: the person is the officer
    """
    if user_id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_ERASURE)


def ensure_not_erased(profile: Profile) -> None:
    """Check that no erasure of the person is running or finished.

    :raises AccountAlreadyErasedError: the person is erased, or the erasure is running
    """
    if profile.erased_at is not None:
        raise AccountAlreadyErasedError(texts.ALREADY_ERASED)


def _entry(name: str, count: int, cleared: list[str], now: datetime) -> dict[str, Any]:
    rule = PERSONAL_TABLES[name]
    is_retained = rule.on_erasure is OnErasure.RETAIN
    until = now + timedelta(days=rule.retention.days) if is_retained and rule.retention.days else None
    return {
        "table": name,
        "area": rule.area,
        "action": str(rule.on_erasure),
        "rows": count,
        "clearedColumns": cleared,
        "reason": rule.retention.reason if is_retained else None,
        "retainUntil": until.date().isoformat() if until else None,
    }


def _count_rows(session: Session, table: Table, user_id: UUID) -> tuple[int, str]:
    """Count the person's rows of a table, and compute a fingerprint that changes with each value."""
    row = session.execute(
        text(
            "SELECT count(*), coalesce(sum(hashtextextended(CAST(t AS text), 0)::numeric), 0)::text"
            f" FROM {table.name} t WHERE {PERSONAL_TABLES[table.name].subject}"
        ),
        {"user_id": user_id},
    ).one()
    return int(row[0]), str(row[1])
