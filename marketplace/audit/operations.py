"""Recording acts, each chained to the one before by its hash."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.infra.db import Json, Statement

GENESIS = "0" * 64

# Rows are chained, so they are written one after the other: the lock is held until the transaction ends.
_LOCK_CHAIN = Statement(text("SELECT pg_advisory_xact_lock(hashtext('audit_logs'))"))
_LAST_HASH = Statement(text("SELECT hash FROM audit_logs ORDER BY id DESC LIMIT 1"))
_INSERT = Statement(
    insert(AuditLog),
    columns=(
        "at",
        "actor_id",
        "actor",
        "action",
        "target_type",
        "target_id",
        "ip_address",
        "user_agent",
        "before",
        "after",
        "previous_hash",
        "hash",
    ),
)


@dataclass(frozen=True)
class AuditActor:
    """Who acted: a person, or an operator at the command line; from where, as far as is known."""

    name: str
    id: UUID | None = None
    ip_address: str | None = None
    user_agent: str | None = None


OPERATOR = AuditActor("operator")


def record(
    session: Session,
    *,
    actor: AuditActor,
    action: str,
    target_type: str,
    target_id: str,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Record an act in the transaction that does it.

    :param actor: who acts
    :param action: such as ``webhook.replay``
    :param target_type: what kind of thing it is done to
    :param target_id: which one
    :param now: when
    :param before: what changed, as it was
    :param after: as it is now
    """
    _LOCK_CHAIN.first(session)
    last = _LAST_HASH.first(session)
    row: dict[str, Any] = {
        "at": now,
        "actor_id": actor.id,
        "actor": actor.name,
        "action": action,
        "target_type": target_type,
        "target_id": target_id,
        "ip_address": actor.ip_address,
        "user_agent": actor.user_agent,
        "before": before,
        "after": after,
        "previous_hash": last["hash"] if last else GENESIS,
    }
    digest = hash_of(row)
    row |= {name: None if row[name] is None else Json(row[name]) for name in ("before", "after")}
    _INSERT.run(session, **row, hash=digest)


def hash_of(row: dict[str, Any]) -> str:
    """Compute a row's hash: SHA-256 over all its other columns, the previous hash among them."""
    hashed = {name: value for name, value in row.items() if name not in ("id", "hash")}
    return hashlib.sha256(orjson.dumps(hashed, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)).hexdigest()
