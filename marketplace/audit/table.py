"""The table of the audit trail for staff: newest first, filtered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.audit.person_keys import load_keys, unseal_values
from marketplace.kernel.paging import TablePage, TableRequest

SORTS = ("at",)
_EXPORT_BATCH_SIZE = 500


@dataclass(frozen=True, kw_only=True)
class AuditFilters:
    """Filters of the audit trail. None means that a filter is not applied.

    :param action: an action such as ``account.suspend``, or its first part such as ``account``
    :param starts: the earliest time, inclusive; ``ends`` is exclusive
    """

    actor_id: UUID | None = None
    action: str | None = None
    target_type: str | None = None
    target_id: str | None = None
    request_id: UUID | None = None
    starts: datetime | None = None
    ends: datetime | None = None


@dataclass(frozen=True)
class AuditEntry:
    """An entry of the audit trail. Values of erased people are none."""

    id: int
    at: datetime
    actor_id: UUID | None
    actor: str
    action: str
    target_type: str
    target_id: str
    ip_address: str | None
    user_agent: str | None
    request_id: UUID | None
    on_behalf_of_id: UUID | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    previous_hash: str
    hash: str


def list_audit_entries(session: Session, *, filters: AuditFilters, table: TableRequest) -> TablePage:
    """Fetch a page of the audit trail. Ids follow the order of the acts."""
    conditions = _conditions(filters)
    total = session.scalar(select(func.count()).select_from(AuditLog).where(*conditions)) or 0
    rows = session.scalars(
        _select_sorted(conditions, descending=table.descending).limit(table.limit).offset(table.offset)
    ).all()
    return TablePage(_open(session, rows), table, total=total)


def export_audit_entries(
    session: Session, *, filters: AuditFilters, descending: bool, limit: int
) -> Iterator[AuditEntry]:
    """Yield the first entries in batches, so a long export needs little memory."""
    conditions = _conditions(filters)
    position: list[ColumnElement[bool]] = []
    left = limit
    while left > 0:
        rows = session.scalars(
            _select_sorted([*conditions, *position], descending=descending).limit(
                min(left, _EXPORT_BATCH_SIZE)
            )
        ).all()
        yield from _open(session, rows)
        if len(rows) < _EXPORT_BATCH_SIZE:
            return
        left -= len(rows)
        last = rows[-1].id
        position = [AuditLog.id < last if descending else AuditLog.id > last]
        session.expunge_all()


def _open(session: Session, rows: Sequence[AuditLog]) -> list[AuditEntry]:
    """Unseal the values of entries, whose keys are loaded in one query."""
    load_keys(session, (words for row in rows for words in _sealed_texts(row)))
    return [
        AuditEntry(
            **{field.name: unseal_values(session, getattr(row, field.name)) for field in fields(AuditEntry)}
        )
        for row in rows
    ]


def _sealed_texts(row: AuditLog) -> Iterator[str]:
    values = [row.ip_address, row.user_agent, *(row.before or {}).values(), *(row.after or {}).values()]
    return (value for value in values if isinstance(value, str))


def _select_sorted(conditions: list[ColumnElement[bool]], *, descending: bool) -> Select[AuditLog]:
    order: Any = AuditLog.id.desc() if descending else AuditLog.id
    return select(AuditLog).where(*conditions).order_by(order)


def _conditions(filters: AuditFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.actor_id is not None:
        conditions.append(AuditLog.actor_id == filters.actor_id)
    if filters.action is not None:
        part = AuditLog.action.startswith(f"{filters.action}.", autoescape=True)
        conditions.append((AuditLog.action == filters.action) | part)
    if filters.target_type is not None:
        conditions.append(AuditLog.target_type == filters.target_type)
    if filters.target_id is not None:
        conditions.append(AuditLog.target_id == filters.target_id)
    if filters.request_id is not None:
        conditions.append(AuditLog.request_id == filters.request_id)
    if filters.starts is not None:
        conditions.append(AuditLog.at >= filters.starts)
    if filters.ends is not None:
        conditions.append(AuditLog.at < filters.ends)
    return conditions
