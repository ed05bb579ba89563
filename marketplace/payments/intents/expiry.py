"""Expiry of unpaid orders, and alerts about stalled payments.

An order expires only after the gateway was polled for a payment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alerts_except
from marketplace.alerts.queries import list_open_subjects
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ProviderUnavailableError, ServiceUnavailableError
from marketplace.orders import operations as orders, states as order_states
from marketplace.orders.deadlines import BANK_TRANSFER_GRACE_PERIOD
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments import gateway_alerts, states, texts
from marketplace.payments.charges.apply import ChargeOutcome, apply_charge
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.refunds import create
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentGateway

_log = structlog.get_logger(__name__)

# The sweep polls overdue orders every minute. A payment without an outcome after this time needs an operator.
STALLED_AFTER = timedelta(hours=2)
_STALLED_LIMIT = 500
_BATCH = 100
_MAX_BATCHES = 20
# After this many consecutive failures, the gateway counts as down for the rest of the sweep.
_UNANSWERED_LIMIT = 3

# A single failed call is not an outage, so the alert needs orders that have waited this long.
_UNREACHABLE_ALERT_AFTER = timedelta(minutes=5)


@dataclass
class ExpiryResult:
    """The counts of a sweep: expired, paid, undecided and failed orders, and abandoned payments.

    An order is undecided if the gateway's response is inconclusive, and failed if an error occurred.
    """

    expired: int = 0
    abandoned: int = 0
    paid: int = 0
    undecided: int = 0
    failed: int = 0
    gateway_down: bool = False


class _ChargeLookup:
    """The gateway's charges by reference, each fetched once in a sweep."""

    def __init__(self, gateway: PaymentGateway) -> None:
        self._gateway = gateway
        self._answers: dict[str, Charge | None] = {}
        self._unclear: set[str] = set()
        self._unanswered = 0

    @property
    def is_gateway_down(self) -> bool:
        """Whether the gateway counts as down for the rest of the sweep."""
        return self._unanswered >= _UNANSWERED_LIMIT

    def fetch_charge(self, reference: str) -> Charge | None:
        """Fetch the charge of a reference; none if the gateway does not know the reference.

        :raises ProviderUnavailableError: the gateway gave no usable response, or counts as down
        """
        if reference not in self._answers:
            if reference in self._unclear or self.is_gateway_down:
                raise ProviderUnavailableError
            try:
                self._answers[reference] = self._gateway.fetch_charge(reference)
            except ProviderUnavailableError:
                self._unclear.add(reference)
                self._unanswered += 1
                raise
            self._unanswered = 0
        return self._answers[reference]


_SELECT_OVERDUE_ORDERS = Statement(
    text(
        """
        SELECT o.id, o.expires_at, coalesce(
            (SELECT array_agg(i.reference ORDER BY i.id) FROM payment_allocations a
                JOIN payment_intents i ON i.id = a.intent_id
                LEFT JOIN transfer_accounts t ON t.intent_id = i.id
                WHERE a.order_id = o.id AND (i.authorization_url IS NOT NULL OR i.opening_until IS NOT NULL
                    OR t.intent_id IS NOT NULL)),
            '{}') AS references, coalesce(
            (SELECT array_agg(i.reference) FROM payment_allocations a
                JOIN payment_intents i ON i.id = a.intent_id
                LEFT JOIN transfer_accounts t ON t.intent_id = i.id
                WHERE a.order_id = o.id AND (i.authorization_url IS NOT NULL OR t.intent_id IS NOT NULL)),
            '{}') AS opened, coalesce(
            (SELECT array_agg(i.reference) FROM payment_allocations a
                JOIN payment_intents i ON i.id = a.intent_id JOIN transfer_accounts t ON t.intent_id = i.id
                WHERE a.order_id = o.id AND o.expires_at <= :lapsed),
            '{}') AS lapsed
        FROM orders o
        WHERE o.status = 'pending_payment' AND o.expires_at <= :now
            AND o.payment_status IS DISTINCT FROM 'quarantined'
            AND (o.expires_at, o.id) > (:after_time, :after_id)
        ORDER BY o.expires_at, o.id LIMIT :limit
        """
    )
)


def sweep_abandoned_checkouts(
    database: Database, gateway: PaymentGateway, *, fee_bearer: str, now: datetime
) -> ExpiryResult:
    """Expire unpaid orders after their payment window, once the gateway has no payment for them.

    The gateway is polled once for each payment, even if the payment is for several orders. A settled charge without an
    earlier event is applied instead. Orders with a missing or inconclusive response do not expire. A sweep handles at
    most 2,000 orders.

    :param fee_bearer: ``platform`` or ``customer``
    """
    result, lookup = ExpiryResult(), _ChargeLookup(gateway)
    overdue_since: list[datetime] = []
    after = (datetime.min.replace(tzinfo=now.tzinfo), UUID(int=0))
    for _ in range(_MAX_BATCHES):
        with database.reading() as session:
            overdue_orders = _SELECT_OVERDUE_ORDERS.all(
                session,
                now=now,
                lapsed=now - BANK_TRANSFER_GRACE_PERIOD,
                after_time=after[0],
                after_id=after[1],
                limit=_BATCH,
            )
        overdue_since += [row["expires_at"] for row in overdue_orders if row["references"]]
        for row in overdue_orders:
            try:
                _expire_or_apply(database, lookup, result, row, fee_bearer=fee_bearer, now=now)
            except ServiceUnavailableError:
                raise
            except Exception:  # noqa: BLE001 - logged with trace; an error must not block the other orders
                _log.exception("unpaid order not expired", orderId=str(row["id"]))
                result.failed += 1
        if len(overdue_orders) < _BATCH:
            break
        after = (overdue_orders[-1]["expires_at"], overdue_orders[-1]["id"])
    _abandon_payments(database, result, now)
    _update_gateway_alert(database, overdue_since, gateway_down=result.gateway_down, now=now)
    return result


def _update_gateway_alert(
    database: Database, overdue_since: Sequence[datetime], *, gateway_down: bool, now: datetime
) -> None:
    """Raise or resolve the alert about an unresponsive gateway.

    :param overdue_since: expiry times of the orders for which the gateway was or should have been polled
    """
    if overdue_since and not gateway_down:
        database.in_transaction(gateway_alerts.resolve_gateway_unreachable_alert, now=now)
    # Orders that have waited longer have an alert about a stalled payment instead.
    waiting = [since for since in overdue_since if _UNREACHABLE_ALERT_AFTER <= now - since <= STALLED_AFTER]
    if waiting and gateway_down:
        database.in_transaction(
            gateway_alerts.raise_gateway_unreachable_alert, waiting_since=min(waiting), now=now
        )


# A payment is abandoned when all its orders have expired or were cancelled. The hosted page may stay open at the
# gateway: a later charge is returned at once.
_SELECT_ABANDONED_INTENTS = Statement(
    text(
        """
        SELECT i.id FROM payment_intents i
        WHERE i.status IN ('initialized', 'pending') AND NOT EXISTS (
            SELECT FROM payment_allocations a JOIN orders o ON o.id = a.order_id
            WHERE a.intent_id = i.id AND o.status = 'pending_payment')
        ORDER BY i.id LIMIT :limit
        """
    )
)


def _abandon_payments(database: Database, result: ExpiryResult, now: datetime) -> None:
    with database.reading() as session:
        intent_ids = _SELECT_ABANDONED_INTENTS.scalars(session, limit=_BATCH * _MAX_BATCHES)
    result.abandoned = len(
        process_each(
            intent_ids,
            lambda intent_id: database.in_transaction(payments.abandon_intent, intent_id=intent_id, now=now),
            failure="payment not abandoned",
        )
    )


def _expire_or_apply(
    database: Database,
    lookup: _ChargeLookup,
    result: ExpiryResult,
    overdue_order: dict[str, Any],
    *,
    fee_bearer: str,
    now: datetime,
) -> None:
    try:
        charges = [lookup.fetch_charge(reference) for reference in overdue_order["references"]]
    except ProviderUnavailableError:
        result.gateway_down = True
        return
    outcomes = [
        database.in_transaction(_apply_found_charge, charge, fee_bearer, now)
        for charge in charges
        if charge is not None and charge.is_successful
    ]
    # A charge that was recorded before did not pay this order, for example because an officer refunded the charge.
    if any(outcome is not ChargeOutcome.DUPLICATE for outcome in outcomes):
        result.paid += 1
    elif not all(
        _is_outcome_final(reference, charge, overdue_order)
        for reference, charge in zip(overdue_order["references"], charges, strict=True)
    ):
        result.undecided += 1
    elif database.in_transaction(_expire_order, overdue_order["id"], now):
        result.expired += 1


def _is_outcome_final(reference: str, charge: Charge | None, overdue_order: dict[str, Any]) -> bool:
    """Return whether the gateway's response about a payment is conclusive."""
    if charge is None:
        # The gateway must know a payment that was initialized there, so this response is inconclusive. The order does
        # not expire, and the payment is later flagged as stalled.
        if reference in overdue_order["opened"]:
            _log.warning("payment unknown to the gateway", reference=reference)
        return reference not in overdue_order["opened"]
    return charge.is_successful or charge.has_failed or reference in overdue_order["lapsed"]


def _apply_found_charge(session: Session, charge: Charge, fee_bearer: str, now: datetime) -> ChargeOutcome:
    outcome = apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    _log.info("charge found by sweep", reference=charge.reference, outcome=outcome.value)
    return outcome


def _expire_order(session: Session, order_id: UUID, now: datetime) -> bool:
    order = lock_order(session, order_id=order_id)
    # The buyer may have paid or opened the hosted page during the poll. Opening the page extends the expiry.
    if (
        order.status != order_states.PENDING_PAYMENT
        or order.payment_status == states.QUARANTINED
        or order.expires_at > now
    ):
        return False
    if order.accepted_minor:
        create.lock_charges(session, order=order)
    orders.expire_order(session, order=order, actor=SYSTEM, now=now)
    create.refund_partial_payment(
        session, order=order, reason="The order expired before the rest was paid.", now=now
    )
    return True


_SELECT_STALLED_PAYMENTS = Statement(
    text(
        """
        SELECT i.id, i.reference, i.status, i.amount_minor, min(o.expires_at) AS expired_at, count(*) AS orders
        FROM payment_intents i
            JOIN payment_allocations a ON a.intent_id = i.id
            JOIN orders o ON o.id = a.order_id
        WHERE i.status IN ('initialized', 'pending') AND a.live AND o.status = 'pending_payment'
            AND o.payment_status IS DISTINCT FROM 'quarantined' AND o.expires_at <= :before
        GROUP BY i.id ORDER BY min(o.expires_at), i.id LIMIT :limit
        """
    )
)


def flag_stalled_payments(session: Session, *, now: datetime) -> int:
    """Raise an alert for each stalled payment, and resolve the alerts of payments with a final status.

    A payment is stalled if an order has been overdue for two hours without a conclusive response of the gateway. At
    most 500 payments are checked.

    :return: the number of stalled payments
    """
    rows = _SELECT_STALLED_PAYMENTS.all(session, before=now - STALLED_AFTER, limit=_STALLED_LIMIT)
    row_by_subject = {f"payment:{row['id']}": row for row in rows}
    open_subjects = list_open_subjects(session, identifier="PAYMENT_STALLED")
    for subject, row in row_by_subject.items():
        if subject not in open_subjects:
            raise_alert(
                session,
                identifier="PAYMENT_STALLED",
                subject=subject,
                title=texts.ALERT_PAYMENT_STALLED,
                facts={
                    "intentId": row["id"],
                    "reference": row["reference"],
                    "status": row["status"],
                    "amountMinor": row["amount_minor"],
                    "orders": row["orders"],
                    "expiredAt": row["expired_at"],
                },
                now=now,
            )
    # Beyond the limit, unchecked payments may still be stalled.
    if len(rows) < _STALLED_LIMIT:
        resolve_alerts_except(
            session,
            identifier="PAYMENT_STALLED",
            subjects=list(row_by_subject),
            note=texts.ALERT_PAYMENT_STALLED_RESOLVED,
            now=now,
        )
    return len(rows)
