"""Deletion of rows whose retention has ended, by the register of personal data.

Retained rows, such as orders, stay for years with a pseudonym only and are not deleted here.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Column, ColumnElement, Table, Uuid, delete, select, tuple_
from sqlalchemy.orm import Session

from marketplace.infra.batches import run_in_batches
from marketplace.infra.db import Database
from marketplace.kernel.ids import first_id_of
from marketplace.notifications.models import Notification, NotificationDeliveryLog
from marketplace.privacy.register import PERSONAL_TABLES
from marketplace.privacy.rules import OnErasure, PersonalTable


def list_limited_tables() -> dict[str, PersonalTable]:
    """List the tables whose rows are deleted after some days, with their rules."""
    return {
        name: rule
        for name, rule in PERSONAL_TABLES.items()
        if rule.retention.days is not None and rule.on_erasure is not OnErasure.RETAIN
    }


def delete_expired_rows(database: Database, *, tables: Mapping[str, Table], now: datetime) -> dict[str, int]:
    """Delete the rows whose retention has ended, in batches.

    :param tables: all tables of the models by name
    :return: the number of deleted rows by table, without tables that had none
    """
    counts = {}
    for name, rule in list_limited_tables().items():
        table = tables[name]

        def delete_batch(
            session: Session, *, now: datetime, limit: int, table: Table = table, rule: PersonalTable = rule
        ) -> int:
            return _delete_batch(session, table=table, rule=rule, now=now, limit=limit)

        if count := run_in_batches(database, delete_batch, now=now):
            counts[name] = count
    return counts


def _delete_batch(session: Session, *, table: Table, rule: PersonalTable, now: datetime, limit: int) -> int:
    key = list(table.primary_key.columns)
    rows = session.execute(
        select(*key).where(*_is_expired(table, rule, now)).limit(limit).with_for_update(skip_locked=True)
    ).all()
    keys = [tuple(row) for row in rows]
    if table.name == "former_contacts":
        _delete_notifications_to(session, [contact_id for (contact_id,) in keys])
    session.execute(delete(table).where(tuple_(*key).in_(keys)))
    return len(keys)


def _is_expired(table: Table, rule: PersonalTable, now: datetime) -> list[ColumnElement[bool]]:
    before = now - timedelta(days=rule.retention.days or 0)
    since: Column[datetime] = table.columns[rule.retention.since]
    conditions: list[ColumnElement[bool]] = [since < before]
    [first, *others] = table.primary_key.columns
    if not others and isinstance(first.type, Uuid) and not _has_index_on(table, since):
        # Ids grow with time, so the primary key finds old rows without a further index.
        conditions.append(first < first_id_of(before))
    return conditions


def _has_index_on(table: Table, column: Column[datetime]) -> bool:
    return any(
        list(index.columns) == [column] and index.dialect_options["postgresql"]["where"] is None
        for index in table.indexes
    )


def _delete_notifications_to(session: Session, contact_ids: list[UUID]) -> None:
    """Delete the notifications to former contacts, which are in no feed."""
    sent = select(Notification.id).where(Notification.former_contact_id.in_(contact_ids))
    session.execute(delete(NotificationDeliveryLog).where(NotificationDeliveryLog.notification_id.in_(sent)))
    session.execute(delete(Notification).where(Notification.former_contact_id.in_(contact_ids)))
