"""Resolution of quarantined charges by officers: accept for the orders, refund, or credit the wallet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.operations import resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.kernel.money import CURRENCY, split_by_weights
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.orders import operations as orders
from marketplace.orders.deadlines import PAYMENT_WINDOW, REMAINDER_PAYMENT_WINDOW
from marketplace.orders.transitions import Actor, LockedOrder, lock_orders
from marketplace.payments import states, texts
from marketplace.payments.charges import notifications
from marketplace.payments.charges.charge_context import (
    LockedQuarantinedCharge,
    QuarantineAction,
    lock_intent,
    split_among_orders,
)
from marketplace.payments.guards import ensure_charge_not_charged_back, ensure_no_conflict_of_interest
from marketplace.payments.models import GatewayCharge, PaymentAllocation, PaymentIntent, QuarantinedCharge
from marketplace.payments.refunds import buyer_accounts, create


class ChargeAlreadyResolvedError(ConflictError):
    """An officer has already resolved the quarantined charge."""

    reason = "charge-already-resolved"


class QuarantineActionNotAllowedError(ConflictError):
    """The quarantined charge does not allow this action."""

    reason = "quarantine-action-not-allowed"


@dataclass(frozen=True)
class ResolvedCharge:
    """A quarantined charge after an officer resolved it, with the kobo that moved."""

    row: QuarantinedCharge
    amount_minor: int
    orders: Sequence[LockedOrder]


# After the last quarantined charge is resolved, an unpaid order can be paid again and gets a later expiry. A closed
# order keeps the payment reference, because the order's refund is shown with that reference.
_REOPEN_ORDERS = Statement(
    text(
        """
        WITH freed AS (
            UPDATE payment_allocations SET live = false WHERE intent_id = :intent_id
        )
        UPDATE orders o SET expires_at = greatest(expires_at, :until), updated_at = :now,
            payment_status = CASE WHEN o.status <> 'pending_payment' THEN 'abandoned' END,
            payment_reference = CASE WHEN o.status <> 'pending_payment' THEN o.payment_reference END
        WHERE o.id = ANY(:order_ids) AND o.payment_status = 'quarantined' AND NOT EXISTS (
            SELECT FROM payment_allocations a JOIN quarantined_charges q ON q.intent_id = a.intent_id
            WHERE a.order_id = o.id AND q.status = 'open')
        """
    )
)


def resolve_quarantined_charge(
    session: Session,
    *,
    quarantined_charge_id: UUID,
    action: QuarantineAction,
    note: str,
    act: Act,
) -> ResolvedCharge:
    """Resolve a quarantined charge, for an officer.

    - ``accept_rest`` accepts the money for the orders that await payment. A sufficient charge pays the orders, and an
      excess is credited to the wallet. Otherwise escrow keeps the partial payment, and the buyer has 24 hours to pay
      the difference.
    - ``refund`` returns the money through the gateway. The orders can be paid again.
    - ``wallet`` credits the buyer's wallet. The orders can be paid again.

    A charge in another currency is not in the ledger. An officer returns the money in the gateway's dashboard and
    records that with ``refund``, the only action allowed.

    :param note: the officer's reason, for the audit log
    :raises NotFoundError: the charge does not exist
    :raises ConflictOfInterestError: the officer is a party to an order of the charge
    :raises ChargeAlreadyResolvedError: the charge is already resolved
    :raises ChargedBackError: the buyer's bank disputes the payment, or has returned it and the action is not ``wallet``
    :raises QuarantineActionNotAllowedError: no order awaits payment, or the ledger has no amount for the charge
    """
    quarantined = _lock_open_charge(
        session, quarantined_charge_id=quarantined_charge_id, officer_id=act.person_id
    )
    chargeback_state = ensure_charge_not_charged_back(
        session,
        charge_id=quarantined.charge.id,
        to_wallet=action == "wallet" or (action == "refund" and not quarantined.amount_minor),
    )
    if action == "accept_rest":
        _accept_for_orders(session, quarantined, officer_id=act.person_id, now=act.now)
    elif action == "wallet" and not quarantined.amount_minor:
        raise QuarantineActionNotAllowedError(texts.CHARGE_NOT_POSTED)
    elif quarantined.amount_minor:
        buyer_id = quarantined.intent.buyer_id
        if chargeback_state == "lost":
            lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
        _refund_shares(
            session,
            quarantined,
            split_among_orders(quarantined.amount_minor, allocated_minor=quarantined.allocated_minor),
            reason="The payment was quarantined.",
            to_wallet=action == "wallet",
            officer_id=act.person_id,
            now=act.now,
        )
        if chargeback_state == "lost":
            # The bank has already returned the money, so the buyer owes the credited amount.
            buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=act.now)
    row = quarantined.row
    row.status, row.resolution, row.resolution_note = "resolved", action, note
    row.resolved_by, row.resolved_at = act.person_id, act.now
    resolve_alert(
        session,
        identifier="CHARGE_QUARANTINED",
        subject=quarantined.cause,
        note=texts.ALERT_CHARGE_QUARANTINED_RESOLVED.format(action=action),
        now=act.now,
    )
    _REOPEN_ORDERS.run(
        session,
        intent_id=quarantined.intent.id,
        order_ids=[order.id for order in quarantined.orders],
        until=act.now + (REMAINDER_PAYMENT_WINDOW if action == "accept_rest" else PAYMENT_WINDOW),
        now=act.now,
    )
    updated_orders = lock_orders(session, order_ids=[order.id for order in quarantined.orders])
    notifications.notify_quarantine_resolved(session, quarantined, action, updated_orders, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="quarantine.resolve",
        target_type="quarantined_charge",
        target_id=str(quarantined_charge_id),
        before={"status": "open", "orders": [_audit_snapshot(order) for order in quarantined.orders]},
        after={
            "status": "resolved",
            "resolution": action,
            "note": note,
            "amountMinor": quarantined.amount_minor,
            "orders": [_audit_snapshot(order) for order in updated_orders],
        },
    )
    return ResolvedCharge(row, quarantined.amount_minor, updated_orders)


def _audit_snapshot(order: LockedOrder) -> dict[str, Any]:
    return {"id": str(order.id), "status": order.status, "acceptedMinor": order.accepted_minor}


def _lock_open_charge(
    session: Session, *, quarantined_charge_id: UUID, officer_id: UUID
) -> LockedQuarantinedCharge:
    """Lock the orders, the intent and the quarantined charge for an officer's decision.

    :raises NotFoundError: the charge does not exist
    :raises ConflictOfInterestError: the officer is a party to an order of the charge
    :raises ChargeAlreadyResolvedError: the charge is already resolved
    """
    intent_id = session.scalar(
        select(QuarantinedCharge.intent_id).where(QuarantinedCharge.id == quarantined_charge_id)
    )
    if intent_id is None:
        raise NotFoundError("Quarantined charge not found.")
    allocated_minor = dict(
        session.execute(
            select(PaymentAllocation.order_id, PaymentAllocation.amount_minor).filter_by(intent_id=intent_id)
        ).all()
    )
    locked_orders = lock_orders(session, order_ids=list(allocated_minor))
    intent = lock_intent(session, intent_id=intent_id)
    row, charge = session.execute(
        select(QuarantinedCharge, GatewayCharge)
        .join(GatewayCharge, GatewayCharge.gateway_charge_id == QuarantinedCharge.gateway_charge_id)
        .where(QuarantinedCharge.id == quarantined_charge_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).one()
    ensure_no_conflict_of_interest(
        session,
        officer_id=officer_id,
        buyer_id=intent.buyer_id,
        vendor_ids=[order.vendor_id for order in locked_orders],
    )
    if row.status != "open":
        raise ChargeAlreadyResolvedError("The charge is already resolved.")
    is_posted = row.ledger_transaction_id is not None and row.currency == CURRENCY
    return LockedQuarantinedCharge(
        row, charge, intent, locked_orders, allocated_minor, charge.principal_minor if is_posted else 0
    )


def _refund_shares(
    session: Session,
    quarantined: LockedQuarantinedCharge,
    shares: Mapping[UUID, int],
    *,
    reason: str,
    to_wallet: bool,
    officer_id: UUID,
    now: datetime,
) -> None:
    """Refund each order's share of a quarantined charge, in kobo."""
    refund_cause = create.RefundCause(quarantined.cause, reason, requested_by=officer_id)
    for number, (order_id, share) in enumerate(shares.items()):
        create.create_refund(
            session,
            charge_id=None if to_wallet else quarantined.charge.id,
            buyer_id=quarantined.intent.buyer_id,
            order_id=order_id,
            refund_cause=refund_cause.numbered(number),
            sources=[(accounts.QUARANTINE, share)],
            description="Quarantined payment credited to the wallet"
            if to_wallet
            else "Quarantined payment refunded",
            now=now,
        )


_ADD_ACCEPTED_AMOUNTS = Statement(
    text(
        """
        UPDATE orders o SET accepted_minor = o.accepted_minor + part.minor, revision = o.revision + 1, updated_at = :now
        FROM unnest(CAST(:order_ids AS uuid[]), CAST(:parts AS bigint[])) AS part (id, minor) WHERE o.id = part.id
        """
    )
)


def _accept_for_orders(
    session: Session, quarantined: LockedQuarantinedCharge, *, officer_id: UUID, now: datetime
) -> None:
    """Move the money into the escrow of the payable orders, as a full or partial payment."""
    payable_orders = quarantined.payable_orders
    if not payable_orders:
        raise QuarantineActionNotAllowedError(texts.NO_PAYABLE_ORDER)
    if not quarantined.amount_minor:
        raise QuarantineActionNotAllowedError(texts.CHARGE_NOT_POSTED_FOR_ORDERS)
    due_minor = [order.due_minor for order in payable_orders]
    is_fully_paid = quarantined.amount_minor >= sum(due_minor)
    # A partial payment is split among all orders, so that a single further payment can complete every order.
    parts_minor = due_minor if is_fully_paid else split_by_weights(quarantined.amount_minor, due_minor)
    buyer_wallet = accounts.wallet(quarantined.intent.buyer_id)
    postings = []
    for order, part_minor in zip(payable_orders, parts_minor, strict=True):
        if part_minor:
            postings += [
                Posting(accounts.QUARANTINE, "debit", part_minor, order.id),
                Posting(buyer_wallet, "credit", part_minor, order.id),
                Posting(buyer_wallet, "debit", part_minor, order.id),
                Posting(accounts.ESCROW, "credit", part_minor, order.id),
            ]
    if is_fully_paid:
        for order in payable_orders:
            orders.mark_paid(
                session,
                order=order,
                reference=quarantined.intent.reference,
                channel=quarantined.charge.channel,
                paid_at=now,
                actor=Actor("staff", officer_id),
                now=now,
            )
        orders.consume_stock(session, paid_orders=payable_orders)
    else:
        _ADD_ACCEPTED_AMOUNTS.run(
            session, order_ids=[order.id for order in payable_orders], parts=parts_minor, now=now
        )
    transaction_id = post_transaction(
        session,
        kind="payment" if is_fully_paid else "held_payment",
        source=quarantined.cause,
        description=f"Quarantined payment accepted for {', '.join(order.number for order in payable_orders)}",
        postings=postings,
        now=now,
    )
    # Refunds use this transaction to find the charge that paid the order.
    quarantined.charge.outcome = "applied"
    quarantined.charge.ledger_transaction_id = transaction_id
    if is_fully_paid:
        session.execute(
            update(PaymentIntent)
            .where(PaymentIntent.id == quarantined.intent.id)
            .values(
                status=states.INTENT.target(quarantined.intent.status, "settle"),
                channel=quarantined.charge.channel,
                settled_at=now,
                updated_at=now,
            )
        )
        _refund_shares(
            session,
            quarantined,
            quarantined.excess_by_order(),
            reason="The payment exceeded the amount due.",
            to_wallet=True,
            officer_id=officer_id,
            now=now,
        )
