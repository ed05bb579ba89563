"""Settled and quarantined charges with the orders of their payment, and the records of charges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.money import split_by_weights
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting
from marketplace.orders import states as order_states
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import states
from marketplace.payments.models import GatewayCharge, QuarantinedCharge
from marketplace.providers.gateway.payloads import Charge

QuarantineAction = Literal["accept_rest", "refund", "wallet"]


@dataclass(frozen=True)
class LockedIntent:
    """The locked payment intent of a charge."""

    id: UUID
    reference: str
    buyer_id: UUID
    amount_minor: int
    status: str


@dataclass(frozen=True)
class ChargeContext:
    """A charge with the orders of its payment.

    ``payable_orders`` await payment, ``closed_orders`` do not. ``principal_minor`` is the buyer's money in kobo: the
    charge without fees that the customer paid on top.
    """

    charge: Charge
    intent: LockedIntent
    payable_orders: Sequence[LockedOrder]
    closed_orders: Sequence[LockedOrder]
    principal_minor: int
    fee_bearer: str

    @property
    def orders(self) -> list[LockedOrder]:
        """All orders of the payment, payable ones first."""
        return [*self.payable_orders, *self.closed_orders]

    @property
    def due_minor(self) -> int:
        """The amount due for the payable orders in kobo."""
        return sum(order.due_minor for order in self.payable_orders)

    @property
    def ledger_source(self) -> str:
        """The source of the charge's ledger transactions."""
        return f"charge:{self.charge.id}"


def split_among_orders(amount_minor: int, *, allocated_minor: Mapping[UUID, int]) -> dict[UUID, int]:
    """Split an amount among the orders of a payment by the largest-remainder method.

    :param amount_minor: kobo
    :param allocated_minor: weights by order id: the kobo that the payment was to pay; at least one is not 0
    :return: kobo by order id, without orders whose share is 0
    """
    order_ids = sorted(allocated_minor)
    shares = split_by_weights(amount_minor, [allocated_minor[order_id] for order_id in order_ids])
    return {order_id: share for order_id, share in zip(order_ids, shares, strict=True) if share}


@dataclass(frozen=True)
class LockedQuarantinedCharge:
    """A quarantined charge with its intent and orders, all locked.

    ``amount_minor`` is the posted amount in kobo, 0 for another currency. ``allocated_minor`` is the amount that the
    payment was to pay for each order.
    """

    row: QuarantinedCharge
    charge: GatewayCharge
    intent: LockedIntent
    orders: Sequence[LockedOrder]
    allocated_minor: Mapping[UUID, int]
    amount_minor: int

    @property
    def payable_orders(self) -> list[LockedOrder]:
        """The orders that await payment."""
        return [order for order in self.orders if order.status == order_states.PENDING_PAYMENT]

    @property
    def single_order_id(self) -> UUID | None:
        """The id of the only order of the payment, none if the payment has several orders."""
        return self.orders[0].id if len(self.orders) == 1 else None

    @property
    def cause(self) -> str:
        """The unique key of the charge's resolution."""
        return f"quarantine:{self.row.id}"

    def excess_by_order(self) -> dict[UUID, int]:
        """Split the excess over the due amount among the orders.

        The excess belongs to orders that no longer await payment, or to all orders if there are none.

        :return: kobo by order id
        """
        payable_orders = self.payable_orders
        excess_minor = self.amount_minor - sum(order.due_minor for order in payable_orders)
        if excess_minor <= 0:
            return {}
        payable_ids = {order.id for order in payable_orders}
        closed_allocated_minor = {
            order_id: amount_minor
            for order_id, amount_minor in self.allocated_minor.items()
            if order_id not in payable_ids
        }
        return split_among_orders(
            excess_minor,
            allocated_minor=closed_allocated_minor
            if any(closed_allocated_minor.values())
            else self.allocated_minor,
        )


_LOCK_INTENT = Prepared(
    text(
        "SELECT id, reference, buyer_id, amount_minor, status FROM payment_intents"
        " WHERE id = :intent_id FOR NO KEY UPDATE"
    ),
    row=LockedIntent,
)


def lock_intent(session: Session, *, intent_id: UUID) -> LockedIntent:
    """Lock a payment intent, whose orders must be locked already."""
    return _LOCK_INTENT.one(session, intent_id=intent_id)


@dataclass(frozen=True)
class _IntentWithCharge(LockedIntent):
    """A locked intent, and the record of a charge of that intent, if any."""

    charge_id: UUID | None
    gateway_charge_id: str | None


# A charge reported without an id is stored under its reference. A later report with an id is about the same charge.
# Charges are recorded with the orders' locks held, so the statement sees all earlier records.
_LOCK_INTENT_WITH_CHARGE = Prepared(
    text(
        """
        SELECT i.id, i.reference, i.buyer_id, i.amount_minor, i.status, c.id AS charge_id, c.gateway_charge_id
        FROM payment_intents i LEFT JOIN LATERAL (
            SELECT id, gateway_charge_id FROM gateway_charges
            WHERE gateway_charge_id = :charge_id OR (intent_id = :intent_id
                AND amount_minor = :amount_minor AND i.reference IN (gateway_charge_id, :charge_id))
            ORDER BY gateway_charge_id = :charge_id DESC LIMIT 1
        ) c ON true
        WHERE i.id = :intent_id FOR NO KEY UPDATE OF i
        """
    ),
    row=_IntentWithCharge,
)
# With the id stored, another charge of the same amount is recognized as a different charge.
_SET_GATEWAY_CHARGE_ID = Statement(
    text(
        """
        WITH held AS (
            UPDATE quarantined_charges SET gateway_charge_id = :charge_id WHERE gateway_charge_id = :reference
        ), paid AS (
            UPDATE payment_intents SET gateway_charge_id = :charge_id
            WHERE id = :intent_id AND gateway_charge_id = :reference
        )
        UPDATE gateway_charges SET gateway_charge_id = :charge_id WHERE id = :row_id
        """
    )
)


def lock_intent_for_charge(session: Session, *, intent_id: UUID, charge: Charge) -> LockedIntent | None:
    """Lock a payment intent to apply a charge.

    A charge that was recorded before gets its id stored if the earlier report had none.

    :param intent_id: the charge's payment, whose orders must be locked already
    :return: none if the charge was recorded before
    """
    intent = _LOCK_INTENT_WITH_CHARGE.one(
        session, intent_id=intent_id, charge_id=charge.id, amount_minor=charge.amount_minor
    )
    if intent.charge_id is None:
        return intent
    if intent.gateway_charge_id == intent.reference != charge.id:
        _SET_GATEWAY_CHARGE_ID.run(
            session,
            row_id=intent.charge_id,
            intent_id=intent.id,
            reference=intent.reference,
            charge_id=charge.id,
        )
    return None


_INSERT_CHARGE_SQL = """
    INSERT INTO gateway_charges (gateway_charge_id, intent_id, outcome, amount_minor, fees_minor, principal_minor,
        currency, channel, ledger_transaction_id, paid_at, created_at)
    VALUES (:gateway_charge_id, :intent_id, :outcome, :amount_minor, :fees_minor, :principal_minor,
        :currency, :channel, :ledger_transaction_id, :paid_at, :created_at)
    RETURNING id
"""
_INSERT_CHARGE = Statement(text(_INSERT_CHARGE_SQL))


def insert_charge(
    session: Session, context: ChargeContext, outcome: str, transaction_id: UUID | None, *, now: datetime
) -> UUID:
    """Insert a charge with its outcome.

    :param outcome: ``applied``, ``quarantined`` or ``returned``
    :param transaction_id: the ledger transaction that posted the charge, if any
    :return: the id of the row
    """
    charge_id: UUID = _INSERT_CHARGE.scalar(
        session, **_charge_columns(context, outcome, transaction_id, now=now)
    )
    return charge_id


_INSERT_APPLIED_CHARGE = Prepared(
    text(
        f"""
        WITH settled AS (
            UPDATE payment_intents SET status = :status, gateway_charge_id = :gateway_charge_id,
                channel = :channel, settled_at = :settled_at, updated_at = :created_at
            WHERE id = :intent_id
        )
        {_INSERT_CHARGE_SQL}
        """
    )
)


def insert_applied_charge(
    session: Session, context: ChargeContext, transaction_id: UUID, *, now: datetime
) -> UUID:
    """Insert a charge that pays its orders, and mark its payment as succeeded.

    :param transaction_id: the ledger transaction that posted the charge
    :return: the id of the row
    """
    charge_id: UUID = _INSERT_APPLIED_CHARGE.scalar(
        session,
        status=states.INTENT.target(context.intent.status, "settle"),
        settled_at=context.charge.paid_at or now,
        **_charge_columns(context, "applied", transaction_id, now=now),
    )
    return charge_id


def _charge_columns(
    context: ChargeContext, outcome: str, transaction_id: UUID | None, *, now: datetime
) -> dict[str, Any]:
    charge = context.charge
    return {
        "gateway_charge_id": charge.id,
        "intent_id": context.intent.id,
        "outcome": outcome,
        "amount_minor": charge.amount_minor,
        "fees_minor": charge.fees_minor,
        "principal_minor": context.principal_minor,
        "currency": charge.currency,
        "channel": charge.channel,
        "ledger_transaction_id": transaction_id,
        "paid_at": charge.paid_at,
        "created_at": now,
    }


def fee_postings(context: ChargeContext) -> list[Posting]:
    """Build the postings of fees that the platform bears; none if the customer bears the fees.

    With these postings, ``gateway_clearing`` equals the balance at the gateway.
    """
    if context.fee_bearer == "customer" or not context.charge.fees_minor:
        return []
    return [
        Posting(accounts.GATEWAY_FEES, "debit", context.charge.fees_minor),
        Posting(accounts.GATEWAY_CLEARING, "credit", context.charge.fees_minor),
    ]
