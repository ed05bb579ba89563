"""Record acts in the audit trail, chained by hashes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.audit.person_keys import seal
from marketplace.infra.sql.statements import Statement

GENESIS_HASH = "0" * 64
LATER_COLUMNS = ("request_id", "on_behalf_of_id")
_FREE_TEXTS = frozenset({"reason", "comment", "note"})


@dataclass(frozen=True, slots=True)
class Act:
    """An act on the platform: actor, role, client and time.

    :param role: the staff role, ``vendor`` or ``buyer`` that the person acts as; otherwise ``operator NAME``,
        ``schedule`` or ``system``
    :param now: the time of the act, in UTC
    :param user_id: the person's profile; none for operators, the schedule and the system
    :param ip_address: the client's address, if known
    :param request_id: the request of the act, if a request caused the act
    :param on_behalf_of_id: the person for whom the actor acts, if it is another person
    """

    role: str
    now: datetime
    user_id: UUID | None = None
    ip_address: str | None = None
    user_agent: str | None = None
    request_id: UUID | None = None
    on_behalf_of_id: UUID | None = None

    @property
    def person_id(self) -> UUID:
        """The acting person's profile id.

        :raises RuntimeError: no person acts
        """
        if self.user_id is None:
            raise RuntimeError(f"{self.role} is not a person")
        return self.user_id


# Rows are chained, so inserts must not overlap. The advisory lock is held until the transaction ends.
_LOCK_CHAIN = Statement(text("SELECT pg_advisory_xact_lock(hashtext('audit_logs'))"))


def record_audit_entry(
    session: Session,
    *,
    act: Act,
    action: str,
    target_type: str,
    target_id: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Record an act in the transaction of the act.

    The audit trail stays locked until the transaction ends, and other transactions wait to record an act. The address
    and the client of a person, and free texts about a person, are sealed: an erasure makes them unreadable.

    :param action: such as ``webhook.replay``
    :param target_type: the kind of the changed object, such as ``order``
    :param before: the changed fields before the act
    :param after: the changed fields after the act
    """
    sealed = {
        "ip_address": _seal_for(session, act.user_id, act.ip_address),
        "user_agent": _seal_for(session, act.user_id, act.user_agent),
        "before": _seal_texts(session, before, target_type, target_id),
        "after": _seal_texts(session, after, target_type, target_id),
    }
    _LOCK_CHAIN.first(session)
    row = {
        "at": act.now,
        "actor_id": act.user_id,
        "actor": act.role,
        "action": action,
        "target_type": target_type,
        "target_id": target_id,
        "request_id": act.request_id,
        "on_behalf_of_id": act.on_behalf_of_id,
        **sealed,
        "previous_hash": session.scalar(select(AuditLog.hash).order_by(AuditLog.id.desc()).limit(1))
        or GENESIS_HASH,
    }
    session.add(AuditLog(**row, hash=compute_hash(row)))
    session.flush()


def _seal_for(session: Session, owner_id: UUID | None, words: str | None) -> str | None:
    return words if owner_id is None or words is None else seal(session, words, owner_id=owner_id)


def _seal_texts(
    session: Session, fields: dict[str, Any] | None, target_type: str, target_id: str
) -> dict[str, Any] | None:
    """Seal free texts about a person, such as the reason of a suspension."""
    if fields is None or target_type != "profile":
        return fields
    return {
        name: seal(session, value, owner_id=UUID(target_id))
        if name in _FREE_TEXTS and isinstance(value, str)
        else value
        for name, value in fields.items()
    }


def compute_hash(row: Mapping[str, Any]) -> str:
    """Compute a row's hash: SHA-256 over all other columns, including the previous hash.

    The columns that later versions added count only with a value, so that older rows keep their hashes.
    """
    hashed = {
        name: value
        for name, value in row.items()
        if name not in ("id", "hash") and not (value is None and name in LATER_COLUMNS)
    }
    return hashlib.sha256(orjson.dumps(hashed, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)).hexdigest()
