"""The one way in for money: a settled charge, however we learnt of it, ends here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.db import Json, Statement
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.orders import operations as orders
from marketplace.orders import states
from marketplace.orders.transitions import GATEWAY, LockedOrder, lock_orders
from marketplace.payments import states as intent_states
from marketplace.payments.models import QuarantinedCharge
from marketplace.providers.gateway import Charge

_log = structlog.get_logger(__name__)

_ORDERS_OF_REFERENCE = Statement(
    text(
        """
        SELECT i.id AS intent_id, array_agg(a.order_id) AS order_ids
        FROM payment_intents i JOIN payment_allocations a ON a.intent_id = i.id
        WHERE i.reference = :reference GROUP BY i.id
        """
    )
)
_LOCK_INTENT = Statement(
    text(
        """
        SELECT id, reference, buyer_id, amount_minor, status, gateway_charge_id
        FROM payment_intents WHERE id = :intent_id FOR NO KEY UPDATE
        """
    )
)
_QUARANTINED = Statement(
    text(
        """
        SELECT id FROM quarantined_charges WHERE gateway_charge_id = :charge_id OR (intent_id = :intent_id
            AND amount_minor = :amount_minor AND :reference IN (gateway_charge_id, :charge_id))
        """
    )
)
_SUCCEED = Statement(
    text(
        """
        UPDATE payment_intents SET status = :status, gateway_charge_id = :charge_id, channel = :channel,
            settled_at = :settled_at, updated_at = :now WHERE id = :intent_id
        """
    )
)
_MARK_QUARANTINED = Statement(
    text(
        """
        WITH intent AS (
            UPDATE payment_intents SET status = :status, updated_at = :now WHERE id = :intent_id
        )
        UPDATE orders SET payment_status = :status, payment_reference = :reference, updated_at = :now
        WHERE id = ANY(:order_ids) AND status = 'pending_payment'
        """
    )
)
_QUARANTINE = Statement(
    insert(QuarantinedCharge),
    columns=(
        "gateway_charge_id",
        "intent_id",
        "reason",
        "amount_minor",
        "currency",
        "fees_minor",
        "ledger_transaction_id",
        "details",
        "created_at",
    ),
)


class UnknownReferenceError(Exception):
    """No payment of ours has the charge's reference, at least not yet: worth another try."""


class Outcome(Enum):
    """What became of a charge."""

    APPLIED = "applied"
    QUARANTINED = "quarantined"
    REPEATED = "repeated"


@dataclass(frozen=True)
class _Intent:
    """The payment that a charge belongs to, locked."""

    id: UUID
    reference: str
    buyer_id: UUID
    amount_minor: int
    status: str
    gateway_charge_id: str | None


def apply_charge(session: Session, *, charge: Charge, fee_bearer: str, now: datetime) -> Outcome:
    """This function will apply a settled charge: its orders are paid and their escrow is held, or it is quarantined.

    It may be called for one charge any number of times, from webhooks, ``verify`` and the sweep at once.
    Rows are locked in the order: orders by id with their escrow, the intent, products, balances.

    :param charge: settled, as the gateway describes it
    :param fee_bearer: ``platform`` or ``customer``: whether the fees are our cost or were paid on top
    :param now: the time of processing
    :return: what became of it
    :raises UnknownReferenceError: no payment of ours has its reference
    """
    found = _ORDERS_OF_REFERENCE.first(session, reference=charge.reference)
    if found is None:
        raise UnknownReferenceError("no payment has this reference")
    locked = lock_orders(session, order_ids=found["order_ids"])
    intent = _Intent(**_LOCK_INTENT.one(session, intent_id=found["intent_id"]))
    if _is_known(session, charge, intent):
        return Outcome.REPEATED
    principal = charge.amount_minor - (charge.fees_minor if fee_bearer == "customer" else 0)
    reason = _reason_to_quarantine(charge, intent, locked, principal_minor=principal)
    if reason is not None:
        _quarantine(
            session,
            charge,
            intent,
            locked,
            reason=reason,
            principal_minor=principal,
            fee_bearer=fee_bearer,
            now=now,
        )
        return Outcome.QUARANTINED
    _pay(session, charge, intent, locked, principal_minor=principal, fee_bearer=fee_bearer, now=now)
    return Outcome.APPLIED


def _is_known(session: Session, charge: Charge, intent: _Intent) -> bool:
    """Tell whether a charge was applied or held back before.

    One that was told of without an id goes by its reference. When it is told of again with its id, the two are
    the same money and must not be booked twice.
    """
    known = intent.gateway_charge_id
    if known is not None and (known == charge.id or intent.reference in (known, charge.id)):
        return True
    held_back = _QUARANTINED.first(
        session,
        charge_id=charge.id,
        intent_id=intent.id,
        amount_minor=charge.amount_minor,
        reference=intent.reference,
    )
    return held_back is not None


def _reason_to_quarantine(
    charge: Charge, intent: _Intent, locked: Sequence[LockedOrder], *, principal_minor: int
) -> str | None:
    if charge.currency != CURRENCY:
        return "currency"
    unpayable = [order for order in locked if order.status != states.PENDING_PAYMENT]
    if intent.status == intent_states.SUCCEEDED or any(
        order.status not in (states.CANCELLED, states.EXPIRED) for order in unpayable
    ):
        return "already_paid"
    if unpayable:
        return "order_not_payable"
    return "amount_below_total" if principal_minor < intent.amount_minor else None


def _pay(
    session: Session,
    charge: Charge,
    intent: _Intent,
    locked: Sequence[LockedOrder],
    *,
    principal_minor: int,
    fee_bearer: str,
    now: datetime,
) -> None:
    """Take the money through the buyer's own account to escrow; what is above the total stays in the wallet."""
    buyer = accounts.wallet(intent.buyer_id)
    postings = [
        Posting(accounts.GATEWAY_CLEARING, "debit", principal_minor),
        Posting(buyer, "credit", principal_minor),
    ]
    for order in locked:
        postings.append(Posting(buyer, "debit", order.total_minor, order.id))
        postings.append(Posting(accounts.ESCROW, "credit", order.total_minor, order.id))
    for order in locked:
        orders.mark_paid(
            session,
            order=order,
            reference=intent.reference,
            channel=charge.channel,
            paid_at=charge.paid_at or now,
            actor=GATEWAY,
            now=now,
        )
    orders.consume_stock(session, paid=locked)
    _SUCCEED.run(
        session,
        intent_id=intent.id,
        status=intent_states.INTENT.target(intent.status, "settle"),
        charge_id=charge.id,
        channel=charge.channel,
        settled_at=charge.paid_at or now,
        now=now,
    )
    numbers = ", ".join(order.number for order in locked)
    post(
        session,
        kind="payment",
        source=f"charge:{charge.id}",
        description=f"Payment for {numbers}",
        postings=[*postings, *_fee_postings(charge, fee_bearer)],
        now=now,
    )


def _quarantine(
    session: Session,
    charge: Charge,
    intent: _Intent,
    locked: Sequence[LockedOrder],
    *,
    reason: str,
    principal_minor: int,
    fee_bearer: str,
    now: datetime,
) -> None:
    """Book a charge that can't be applied to the quarantine account and show it to finance."""
    transaction_id = None
    # The books are in naira: money of another currency has a row here, and no entry until it is exchanged.
    if charge.currency == CURRENCY and principal_minor > 0:
        transaction_id = post(
            session,
            kind="quarantine",
            source=f"charge:{charge.id}",
            description=f"Charge held back: {reason}",
            postings=[
                Posting(accounts.GATEWAY_CLEARING, "debit", principal_minor),
                Posting(accounts.QUARANTINE, "credit", principal_minor),
                *_fee_postings(charge, fee_bearer),
            ],
            now=now,
        )
    _QUARANTINE.run(
        session,
        gateway_charge_id=charge.id,
        intent_id=intent.id,
        reason=reason,
        amount_minor=charge.amount_minor,
        currency=charge.currency,
        fees_minor=charge.fees_minor,
        ledger_transaction_id=transaction_id,
        details=Json(_details(intent, locked)),
        created_at=now,
    )
    # A payment that succeeded stays so, whatever else comes for it.
    if reason in ("amount_below_total", "currency") and intent.status != intent_states.SUCCEEDED:
        _MARK_QUARANTINED.run(
            session,
            intent_id=intent.id,
            status=intent_states.INTENT.target(intent.status, "quarantine"),
            reference=intent.reference,
            order_ids=[order.id for order in locked],
            now=now,
        )
    _log.warning("charge quarantined", reason=reason, reference=intent.reference)


def _details(intent: _Intent, locked: Sequence[LockedOrder]) -> dict[str, Any]:
    return {
        "reference": intent.reference,
        "expectedMinor": intent.amount_minor,
        "orders": [{"id": str(order.id), "number": order.number, "status": order.status} for order in locked],
    }


def _fee_postings(charge: Charge, fee_bearer: str) -> list[Posting]:
    """Our cost, so that gateway_clearing stays what the gateway holds for us."""
    if fee_bearer == "customer" or not charge.fees_minor:
        return []
    return [
        Posting(accounts.GATEWAY_FEES, "debit", charge.fees_minor),
        Posting(accounts.GATEWAY_CLEARING, "credit", charge.fees_minor),
    ]
