"""Collect the changes of a webhook event while the event's transaction is open.

A row belongs to the transaction if it is newer than the start and invisible to another connection.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from marketplace.alerts.models import Alert
from marketplace.alerts.operations import SEND_ALERT_TOPIC
from marketplace.infra.db import Base
from marketplace.infra.outbox import OutboxEvent
from marketplace.infra.sql.statements import Row, Statement
from marketplace.ledger.accounts import Account
from marketplace.notifications.models import Notification
from marketplace.orders.models import OrderEvent
from marketplace.payments.models import PaymentAllocation, PaymentIntent, QuarantinedCharge, Refund
from marketplace.payments.refunds import gateway_reports
from marketplace.payouts.models import PayoutException
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.support.models import SupportContactMessage
from marketplace.webhooks.events import PermanentEventError, parse_gateway_event
from marketplace.webhooks.models import InboxEvent

_ModelT = TypeVar("_ModelT", bound=Base)


@dataclass(frozen=True)
class OrderChange:
    """A status of an order before and after. ``what`` is ``status``, ``payment`` or ``escrow``."""

    id: UUID
    number: str
    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class RefundChange:
    """A new refund (``before`` is None), or a refund with a changed status."""

    id: UUID
    amount_minor: int
    destination: str
    order_number: str | None
    before: str | None
    after: str


@dataclass(frozen=True)
class PostedEntry:
    """A debit or credit of a posted ledger transaction."""

    account: str
    direction: str
    amount_minor: int
    order_number: str | None


@dataclass(frozen=True)
class PostedTransaction:
    """A posted ledger transaction."""

    id: UUID
    kind: str
    source: str
    description: str
    entries: Sequence[PostedEntry]


@dataclass(frozen=True)
class AlertTransition:
    """An alert with a pending message to the channels. ``event`` is ``raised`` or ``resolved``."""

    id: UUID
    event: str
    identifier: str
    severity: str
    subject: str
    title: str


@dataclass(frozen=True)
class Changes:
    """All changes of a transaction.

    :param work: enqueued outbox events, except messages about alerts
    :param parts: the events split from an envelope
    """

    orders: Sequence[OrderChange]
    refunds: Sequence[RefundChange]
    ledger: Sequence[PostedTransaction]
    notifications: Sequence[Notification]
    quarantined_charges: Sequence[QuarantinedCharge]
    payout_exceptions: Sequence[PayoutException]
    alerts: Sequence[AlertTransition]
    work: Sequence[OutboxEvent]
    messages: Sequence[SupportContactMessage]
    parts: Sequence[InboxEvent]


# UUIDs of version 7 grow with time, strictly so within a connection. Order events have serial numbers.
_SELECT_START_POSITION = Statement(text("SELECT uuidv7(), coalesce((SELECT max(id) FROM order_events), 0)"))

_SELECT_NEW_ENTRIES = Statement(
    text(
        """
        SELECT t.id AS transaction_id, t.kind, t.source, t.description, a.kind AS account_kind, a.owner_id,
            e.direction, e.amount_minor, e.order_id, o.number AS order_number
        FROM ledger_transactions t
        JOIN ledger_entries e ON e.transaction_id = t.id
        JOIN ledger_accounts a ON a.id = e.account_id
        LEFT JOIN orders o ON o.id = e.order_id
        WHERE t.id > :since ORDER BY t.id, e.id
        """
    )
)
_SELECT_ORDER_STATUSES = Statement(
    text(
        """
        SELECT o.id, o.number, o.status, o.payment_status AS payment, s.status AS escrow
        FROM orders o JOIN escrows s ON s.order_id = o.id WHERE o.id = ANY(CAST(:ids AS uuid[])) ORDER BY o.number
        """
    )
)
_SELECT_REFUND_STATUSES = Statement(
    text(
        """
        SELECT r.id, r.amount_minor, r.destination, o.number AS order_number, NULL AS before, r.status AS after
        FROM refunds r LEFT JOIN orders o ON o.id = r.order_id
        WHERE r.id = ANY(CAST(:ids AS uuid[])) ORDER BY r.id
        """
    ),
    row=RefundChange,
)


class ChangeRecorder:
    """The recorder of a transaction's changes while an event is applied."""

    def __init__(self, session: Session, committed: Session, *, body: bytes) -> None:
        """Start recording.

        :param session: the transaction that applies the event
        :param committed: a session with another connection, which sees committed rows only
        :param body: the event's raw body
        """
        self._session = session
        self._committed = committed
        [(self._since, self._last_order_event)] = _SELECT_START_POSITION.tuples(session)
        self._orders, self._refunds = _find_referenced_rows(committed, body)

    def collect_changes(self) -> Changes:
        """Collect the changes since the start. The entities in the result outlive the transaction."""
        others = {
            row["transaction_id"] for row in _SELECT_NEW_ENTRIES.all(self._committed, since=self._since)
        }
        entries = [
            row
            for row in _SELECT_NEW_ENTRIES.all(self._session, since=self._since)
            if row["transaction_id"] not in others
        ]
        refunds = self._new_rows(Refund, Refund.id)
        order_events = self._new_rows(OrderEvent, OrderEvent.id, since=self._last_order_event)
        order_ids = self._orders | {row.order_id for row in order_events}
        order_ids |= {row.order_id for row in refunds if row.order_id}
        order_ids |= {row["order_id"] for row in entries if row["order_id"]}
        refund_ids = self._refunds | {row.id for row in refunds}
        refund_ids.update(self._session.scalars(select(Refund.id).where(Refund.order_id.in_(order_ids))))
        outbox_events = self._new_rows(OutboxEvent, OutboxEvent.id)
        return Changes(
            orders=self._order_changes(order_ids),
            refunds=self._refund_changes(refund_ids),
            ledger=[
                _posted_transaction(list(group))
                for _, group in groupby(entries, key=itemgetter("transaction_id"))
            ],
            notifications=self._new_rows(Notification, Notification.id),
            quarantined_charges=self._new_rows(QuarantinedCharge, QuarantinedCharge.id),
            payout_exceptions=self._new_rows(PayoutException, PayoutException.id),
            alerts=self._alert_transitions(outbox_events),
            work=[row for row in outbox_events if row.topic != SEND_ALERT_TOPIC],
            messages=self._new_rows(SupportContactMessage, SupportContactMessage.id),
            parts=self._new_rows(InboxEvent, InboxEvent.id),
        )

    def _new_rows(
        self, model: type[_ModelT], row_id: InstrumentedAttribute[Any], *, since: int | None = None
    ) -> list[_ModelT]:
        """Fetch the transaction's own rows, detached so that a rollback leaves the values readable."""
        new_ids = select(row_id).where(row_id > (self._since if since is None else since))
        ids = set(self._session.scalars(new_ids))
        ids.difference_update(self._committed.scalars(select(row_id).where(row_id.in_(ids))))
        rows = list(self._session.scalars(select(model).where(row_id.in_(ids)).order_by(row_id)))
        for row in rows:
            self._session.expunge(row)
        return rows

    def _alert_transitions(self, outbox_events: Iterable[OutboxEvent]) -> list[AlertTransition]:
        """List each alert with a pending message, once for all channels."""
        messages = [row.payload for row in outbox_events if row.topic == SEND_ALERT_TOPIC]
        announced = {(UUID(message["alertId"]), message["event"]): None for message in messages}
        alerts = [(self._session.get_one(Alert, alert_id), event) for alert_id, event in announced]
        return [
            AlertTransition(alert.id, event, alert.identifier, alert.severity, alert.subject, alert.title)
            for alert, event in alerts
        ]

    def _order_changes(self, ids: Collection[UUID]) -> list[OrderChange]:
        before = {row["id"]: row for row in _SELECT_ORDER_STATUSES.all(self._committed, ids=list(ids))}
        return [
            OrderChange(row["id"], row["number"], what, old[what], row[what])
            for row in _SELECT_ORDER_STATUSES.all(self._session, ids=list(ids))
            if (old := before.get(row["id"]))
            for what in ("status", "payment", "escrow")
            if old[what] != row[what]
        ]

    def _refund_changes(self, ids: Collection[UUID]) -> list[RefundChange]:
        before = {row.id: row.after for row in _SELECT_REFUND_STATUSES.all(self._committed, ids=list(ids))}
        return [
            replace(row, before=before.get(row.id))
            for row in _SELECT_REFUND_STATUSES.all(self._session, ids=list(ids))
            if before.get(row.id) != row.after
        ]


def _posted_transaction(entries: Sequence[Row]) -> PostedTransaction:
    first = entries[0]
    return PostedTransaction(
        first["transaction_id"],
        first["kind"],
        first["source"],
        first["description"],
        [
            PostedEntry(
                Account(entry["account_kind"], entry["owner_id"]).name,
                entry["direction"],
                entry["amount_minor"],
                entry["order_number"],
            )
            for entry in entries
        ],
    )


def _find_referenced_rows(session: Session, body: bytes) -> tuple[set[UUID], set[UUID]]:
    """Find the orders and refunds named by an event, whether or not the event changes any."""
    try:
        event = parse_gateway_event(body)
    except PermanentEventError:
        return set(), set()
    nested = event.data.get("transaction")
    named = [
        event.data.get("reference"),
        event.data.get("transaction_reference"),
        nested.get("reference") if isinstance(nested, dict) else None,
    ]
    orders = session.scalars(
        select(PaymentAllocation.order_id)
        .join(PaymentIntent, PaymentIntent.id == PaymentAllocation.intent_id)
        .where(PaymentIntent.reference.in_([name for name in named if isinstance(name, str)]))
    )
    refunds: set[UUID] = set()
    if event.type.startswith("refund."):
        with suppress(MalformedGatewayDataError):  # applying the event reports the error
            refunds.update(
                gateway_reports.list_affected_refunds(session, reported=GatewayRefund.from_wire(event.data))
            )
    return set(orders), refunds
