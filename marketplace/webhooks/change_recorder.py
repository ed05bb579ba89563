"""What an event changes: orders, the ledger, refunds and what else it wrote, told while its transaction is open.

What a transaction wrote is what it sees and nobody else does: rows that were made since it began, less those that
another connection sees as well.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import SEND_ALERT_TOPIC
from marketplace.infra.db import Row, Statement
from marketplace.ledger.accounts import Account
from marketplace.payments.refunds import refund_events
from marketplace.providers.gateway.errors import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.webhooks.events import PermanentEventError, parse_gateway_event

# Ids grow with time: those that a connection makes, without exception. Steps of orders are numbered.
_SELECT_START_POSITION = Statement(
    text("SELECT uuidv7() AS since, coalesce((SELECT max(id) FROM order_events), 0) AS since_step")
)
_SELECT_NEW_LEDGER_TRANSACTIONS = Statement(
    text("SELECT id, kind, source, description FROM ledger_transactions WHERE id > :since ORDER BY id")
)
_SELECT_LEDGER_ENTRIES = Statement(
    text(
        """
        SELECT e.transaction_id, a.kind, a.owner_id, e.direction, e.amount_minor, e.order_id,
            o.number AS order_number
        FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id LEFT JOIN orders o ON o.id = e.order_id
        WHERE e.transaction_id = ANY(:ids) ORDER BY e.id
        """
    )
)
_SELECT_NEW_ORDER_EVENTS = Statement(text("SELECT id, order_id FROM order_events WHERE id > :since_step"))
_SELECT_NEW_REFUNDS = Statement(text("SELECT id, order_id FROM refunds WHERE id > :since"))
_SELECT_NEW_NOTIFICATIONS = Statement(
    text('SELECT id, user_id AS "userId", type, title FROM notifications WHERE id > :since ORDER BY id')
)
_SELECT_NEW_QUARANTINED_CHARGES = Statement(
    text(
        """
        SELECT id, reason, amount_minor AS "amountMinor", currency FROM quarantined_charges
        WHERE id > :since ORDER BY id
        """
    )
)
_SELECT_NEW_PAYOUT_EXCEPTIONS = Statement(
    text(
        """
        SELECT id, outcome, reference, amount_minor AS "amountMinor", currency FROM payout_exceptions
        WHERE id > :since ORDER BY id
        """
    )
)
_SELECT_NEW_OUTBOX_EVENTS = Statement(
    text("SELECT id, queue, topic, payload FROM outbox_events WHERE id > :since ORDER BY id")
)
_SELECT_ALERTS = Statement(
    text("SELECT id, identifier, severity, subject, title FROM alerts WHERE id = ANY(:ids) ORDER BY id")
)
_SELECT_NEW_SUPPORT_MESSAGES = Statement(
    text("SELECT id, type FROM support_contact_messages WHERE id > :since ORDER BY id")
)
_SELECT_NEW_INBOX_EVENTS = Statement(
    text("SELECT id, provider FROM webhook_inbox WHERE id > :since ORDER BY id")
)
_SELECT_REFUND_IDS_OF_ORDERS = Statement(text("SELECT id FROM refunds WHERE order_id = ANY(:ids)"))
_SELECT_ORDER_IDS_OF_REFERENCES = Statement(
    text(
        """
        SELECT a.order_id AS id FROM payment_intents i JOIN payment_allocations a ON a.intent_id = i.id
        WHERE i.reference = ANY(:references)
        """
    )
)
_SELECT_ORDER_STATUSES = Statement(
    text(
        """
        SELECT o.id, o.number, o.status, o.payment_status AS payment, s.status AS escrow
        FROM orders o JOIN escrows s ON s.order_id = o.id WHERE o.id = ANY(:ids) ORDER BY o.number
        """
    )
)
_SELECT_REFUND_STATUSES = Statement(
    text(
        """
        SELECT r.id, r.status, r.amount_minor AS "amountMinor", r.destination, o.number AS "orderNumber"
        FROM refunds r LEFT JOIN orders o ON o.id = r.order_id WHERE r.id = ANY(:ids) ORDER BY r.id
        """
    )
)
_SELECT_COMMITTED_IDS = {
    table: Statement(text(f"SELECT id FROM {table} WHERE id = ANY(:ids)"))
    for table in (
        *("ledger_transactions", "order_events", "refunds", "notifications", "quarantined_charges"),
        *("payout_exceptions", "outbox_events", "support_contact_messages", "webhook_inbox"),
    )
}
_COMPARED_STATUSES = ("status", "payment", "escrow")


class ChangeRecorder:
    """Looks at what a transaction changes, from before the event has its effect until after it."""

    def __init__(self, session: Session, committed: Session, *, body: bytes) -> None:
        """Begin to look.

        :param session: in the transaction that the event has its effect in
        :param committed: reads what is committed, by a connection of its own
        :param body: the event's
        """
        self._session = session
        self._committed = committed
        self._start_position = _SELECT_START_POSITION.one(session)
        self._orders, self._refunds = _find_referenced_rows(committed, body)

    def collect_changes(self) -> dict[str, Any]:
        """Tell what was changed since, as the API shows it.

        :return: ``orders`` and ``refunds`` with what they were before, ``ledger`` with its entries,
            ``notifications``, ``heldCharges``, ``payoutExceptions``, ``alerts`` that somebody is told of (``raised``
            or ``resolved``), other ``work`` that is handed on, ``messages`` that are kept, and the ``parts`` that an
            envelope is taken apart into, each an event of its own
        """
        transactions = self._new_rows("ledger_transactions", _SELECT_NEW_LEDGER_TRANSACTIONS)
        entries = _SELECT_LEDGER_ENTRIES.all(self._session, ids=[row["id"] for row in transactions])
        steps = self._new_rows("order_events", _SELECT_NEW_ORDER_EVENTS)
        refunds = self._new_rows("refunds", _SELECT_NEW_REFUNDS)
        touched = [*steps, *entries, *refunds]
        order_ids = self._orders | {row["order_id"] for row in touched if row["order_id"]}
        order_refunds = _SELECT_REFUND_IDS_OF_ORDERS.all(self._session, ids=list(order_ids))
        outbox_events = self._new_rows("outbox_events", _SELECT_NEW_OUTBOX_EVENTS)
        refund_ids = self._refunds | {row["id"] for row in (*refunds, *order_refunds)}
        return {
            "orders": self._orders_changed(order_ids),
            "refunds": self._refunds_changed(refund_ids),
            "ledger": [_transaction_view(row, entries) for row in transactions],
            "notifications": self._new_rows("notifications", _SELECT_NEW_NOTIFICATIONS),
            "heldCharges": self._new_rows("quarantined_charges", _SELECT_NEW_QUARANTINED_CHARGES),
            "payoutExceptions": self._new_rows("payout_exceptions", _SELECT_NEW_PAYOUT_EXCEPTIONS),
            "alerts": self._alert_events(outbox_events),
            "work": [
                {name: row[name] for name in ("id", "queue", "topic")}
                for row in outbox_events
                if row["topic"] != SEND_ALERT_TOPIC
            ],
            "messages": self._new_rows("support_contact_messages", _SELECT_NEW_SUPPORT_MESSAGES),
            "parts": self._new_rows("webhook_inbox", _SELECT_NEW_INBOX_EVENTS),
        }

    def _new_rows(self, table: str, statement: Statement[Row]) -> list[dict[str, Any]]:
        rows = statement.all(self._session, **self._start_position)
        committed = (
            _SELECT_COMMITTED_IDS[table].all(self._committed, ids=[row["id"] for row in rows]) if rows else []
        )
        committed_ids = {row["id"] for row in committed}
        return [row for row in rows if row["id"] not in committed_ids]

    def _alert_events(self, outbox_events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give the alerts that channels are to tell of, each once for all channels."""
        messages = [row["payload"] for row in outbox_events if row["topic"] == SEND_ALERT_TOPIC]
        announced = {(UUID(message["alertId"]), message["event"]): None for message in messages}
        rows = {
            row["id"]: row
            for row in _SELECT_ALERTS.all(self._session, ids=[alert_id for alert_id, _ in announced])
        }
        return [rows[alert_id] | {"event": event} for alert_id, event in announced]

    def _orders_changed(self, ids: Iterable[UUID]) -> list[dict[str, Any]]:
        before = {row["id"]: row for row in _SELECT_ORDER_STATUSES.all(self._committed, ids=list(ids))}
        return [
            {
                "id": row["id"],
                "number": row["number"],
                "what": aspect,
                "before": old[aspect],
                "after": row[aspect],
            }
            for row in _SELECT_ORDER_STATUSES.all(self._session, ids=list(ids))
            if (old := before.get(row["id"]))
            for aspect in _COMPARED_STATUSES
            if old[aspect] != row[aspect]
        ]

    def _refunds_changed(self, ids: Iterable[UUID]) -> list[dict[str, Any]]:
        before = {
            row["id"]: row["status"] for row in _SELECT_REFUND_STATUSES.all(self._committed, ids=list(ids))
        }
        return [
            row | {"before": before.get(row["id"]), "after": row.pop("status")}
            for row in _SELECT_REFUND_STATUSES.all(self._session, ids=list(ids))
            if before.get(row["id"]) != row["status"]
        ]


def _transaction_view(row: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    return row | {
        "entries": [
            {
                "account": Account(entry["kind"], entry["owner_id"]).name,
                "direction": entry["direction"],
                "amountMinor": entry["amount_minor"],
                "orderNumber": entry["order_number"],
            }
            for entry in entries
            if entry["transaction_id"] == row["id"]
        ]
    }


def _find_referenced_rows(session: Session, body: bytes) -> tuple[set[UUID], set[UUID]]:
    """Give the orders and refunds that an event names, whether or not it will change them."""
    try:
        event = parse_gateway_event(body)
    except PermanentEventError:
        return set(), set()
    nested = event.data.get("transaction")
    named = [event.data.get("reference"), event.data.get("transaction_reference")]
    named.append(nested.get("reference") if isinstance(nested, dict) else None)
    references = [name for name in named if isinstance(name, str)]
    orders = _SELECT_ORDER_IDS_OF_REFERENCES.all(session, references=references) if references else []
    refunds: set[UUID] = set()
    if event.type.startswith("refund."):
        with suppress(MalformedGatewayDataError):  # for which it will be refused
            refunds.update(
                refund_events.list_affected_refunds(session, reported=GatewayRefund.from_wire(event.data))
            )
    return {row["id"] for row in orders}, refunds
