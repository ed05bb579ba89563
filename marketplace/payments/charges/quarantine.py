"""Charges that are held back, decided on by finance: kept for the order, sent back, or given to the wallet."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.kernel.money import CURRENCY, format_naira, split_by_weights
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders
from marketplace.orders import states as order_states
from marketplace.orders.deadlines import PAYMENT_WINDOW, REMAINDER_PAYMENT_WINDOW
from marketplace.orders.transitions import Actor, LockedOrder, lock_orders
from marketplace.payments import states
from marketplace.payments.chargeback_guard import ensure_charge_not_charged_back
from marketplace.payments.charges import alerts
from marketplace.payments.charges.quarantined_charge import LockedQuarantinedCharge, split_among_orders
from marketplace.payments.conflict_of_interest import ensure_no_conflict_of_interest
from marketplace.payments.refunds import buyer_debt, create

QuarantineAction = Literal["accept_rest", "refund", "wallet"]


_SELECT_ALLOCATIONS = Statement(
    text(
        """
        SELECT q.intent_id, array_agg(a.order_id) AS order_ids, array_agg(a.amount_minor) AS amounts
        FROM quarantined_charges q JOIN payment_allocations a ON a.intent_id = q.intent_id
        WHERE q.id = :held_id GROUP BY q.intent_id
        """
    )
)
_LOCK_INTENT = Statement(
    text(
        "SELECT id, reference, buyer_id, status FROM payment_intents WHERE id = :intent_id FOR NO KEY UPDATE"
    )
)
_LOCK_QUARANTINED_CHARGE = Statement(
    text(
        """
        SELECT q.id, q.status, q.currency, q.amount_minor, q.ledger_transaction_id, c.id AS charge_id,
            c.principal_minor, c.channel
        FROM quarantined_charges q JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id
        WHERE q.id = :held_id FOR NO KEY UPDATE
        """
    )
)
_MARK_RESOLVED = Statement(
    text(
        """
        UPDATE quarantined_charges SET status = 'resolved', resolution = :action, resolution_note = :note,
            resolved_by = :officer_id, resolved_at = :now
        WHERE id = :held_id
        """
    )
)
# Once nothing is held back of it any more, an order that waits can be paid again, and its buyer has time to. One that
# is over keeps the reference: what goes back of that payment is shown with it.
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
_ADD_ACCEPTED_AMOUNTS = Statement(
    text(
        """
        UPDATE orders o SET accepted_minor = o.accepted_minor + part.minor, revision = o.revision + 1, updated_at = :now
        FROM unnest(CAST(:order_ids AS uuid[]), CAST(:parts AS bigint[])) AS part (id, minor) WHERE o.id = part.id
        """
    )
)
_MARK_INTENT_SUCCEEDED = Statement(
    text(
        """
        UPDATE payment_intents SET status = :status, channel = :channel, settled_at = :now, updated_at = :now
        WHERE id = :intent_id
        """
    )
)
# So the books tell what of the charge is in whose escrow, and refunds go back by it.
_MARK_CHARGE_APPLIED = Statement(
    text(
        """
        UPDATE gateway_charges SET outcome = 'applied', ledger_transaction_id = :transaction_id
        WHERE id = :charge_id
        """
    )
)


class ChargeAlreadyResolvedError(ConflictError):
    """An officer has decided on it."""


class QuarantineActionNotAllowedError(ConflictError):
    """No order waits for the money, or there is none in the books."""


def resolve_quarantined_charge(
    session: Session,
    *,
    held_id: UUID,
    action: QuarantineAction,
    note: str,
    act: Act,
) -> dict[str, Any]:
    """Decide what becomes of a charge that is held back, for an officer.

    ``accept_rest`` keeps it for the orders that still wait: they are paid if it covers them by now; otherwise it is
    a part of them, in escrow, and their buyer has a day to pay the difference on a new page. ``refund`` sends it
    back by the gateway, ``wallet`` gives it to the buyer's wallet; the orders can be paid anew then. Money of
    another currency is in no book: it is sent back at the gateway by hand, and ``refund`` alone notes that it was.

    :param held_id: of the row
    :param note: why, for the audit
    :return: the row's id, what was done, the kobo that moved, and the orders with what is left to pay
    :raises NotFoundError: there is no such row
    :raises ForbiddenError: the officer is a party to it
    :raises ChargeAlreadyResolvedError: it was decided on before
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises QuarantineActionNotAllowedError: no order waits for the accepted money, or the ledger has none
    """
    held = _lock_open_charge(session, held_id=held_id, officer_id=act.person_id)
    into_wallet = action == "wallet" or (action == "refund" and not held.minor)
    standing = ensure_charge_not_charged_back(session, charge_id=held.charge_id, into_wallet=into_wallet)
    if action == "accept_rest":
        _accept_for_orders(session, held, officer_id=act.person_id, now=act.now)
    elif action == "wallet" and not held.minor:
        raise QuarantineActionNotAllowedError(
            "No money of it is in the books, so there is none for the wallet: send it back at the gateway by hand,"
            " then note that with refund."
        )
    elif held.minor:
        buyer_id = held.intent["buyer_id"]
        if standing == "lost":
            lock_balances(session, wanted=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
        _return_to_buyer(session, held, action, officer_id=act.person_id, now=act.now)
        if standing == "lost":
            # The bank gave the buyer the money: they owe it.
            buyer_debt.offset_against_wallet(session, buyer_id=buyer_id, now=act.now)
    _MARK_RESOLVED.run(
        session, held_id=held_id, action=action, note=note, officer_id=act.person_id, now=act.now
    )
    alerts.resolve_quarantined_charge_alert(session, held_id=held_id, action=action, now=act.now)
    until = act.now + (REMAINDER_PAYMENT_WINDOW if action == "accept_rest" else PAYMENT_WINDOW)
    _REOPEN_ORDERS.run(
        session,
        intent_id=held.intent["id"],
        order_ids=[order.id for order in held.orders],
        until=until,
        now=act.now,
    )
    after = lock_orders(session, order_ids=[order.id for order in held.orders])
    _notify_buyer(session, held, action, after, now=act.now)
    shown = [
        {
            "id": order.id,
            "number": order.number,
            "status": order.status,
            "dueMinor": order.due_minor if order.status == order_states.PENDING_PAYMENT else 0,
        }
        for order in after
    ]
    record_audit_entry(
        session,
        act=act,
        action="quarantine.resolve",
        target_type="quarantined_charge",
        target_id=str(held_id),
        before={"status": "open", "orders": [_audit_snapshot(order) for order in held.orders]},
        after={
            "status": "resolved",
            "resolution": action,
            "note": note,
            "amountMinor": held.minor,
            "orders": [_audit_snapshot(order) for order in after],
        },
    )
    return {
        "id": held_id,
        "status": "resolved",
        "resolution": action,
        "amountMinor": held.minor,
        "orders": shown,
    }


def _audit_snapshot(order: LockedOrder) -> dict[str, Any]:
    return {"id": str(order.id), "status": order.status, "acceptedMinor": order.accepted_minor}


def _lock_open_charge(session: Session, *, held_id: UUID, officer_id: UUID) -> LockedQuarantinedCharge:
    """Lock all that is concerned in the order that all keep to, and make sure that it is open."""
    found = _SELECT_ALLOCATIONS.first(session, held_id=held_id)
    if found is None:
        raise NotFoundError("There is no such charge held back.")
    locked = lock_orders(session, order_ids=found["order_ids"])
    intent = _LOCK_INTENT.one(session, intent_id=found["intent_id"])
    row = _LOCK_QUARANTINED_CHARGE.one(session, held_id=held_id)
    ensure_no_conflict_of_interest(
        session,
        officer_id=officer_id,
        buyer_id=intent["buyer_id"],
        vendor_ids=[order.vendor_id for order in locked],
    )
    if row["status"] != "open":
        raise ChargeAlreadyResolvedError("It was decided on already.")
    booked = row["ledger_transaction_id"] is not None and row["currency"] == CURRENCY
    return LockedQuarantinedCharge(
        held_id,
        row["charge_id"],
        row["channel"],
        intent,
        locked,
        dict(zip(found["order_ids"], found["amounts"], strict=True)),
        row["principal_minor"] if booked else 0,
    )


def _return_to_buyer(
    session: Session,
    held: LockedQuarantinedCharge,
    action: QuarantineAction,
    *,
    officer_id: UUID,
    now: datetime,
) -> None:
    request = create.RefundCause(held.cause, "The payment was held back.", requested_by=officer_id)
    shares = split_among_orders(held.minor, to_pay=held.to_pay)
    if action == "wallet":
        _credit_wallet(session, held, shares, request=request, now=now)
        return
    for number, (order_id, share) in enumerate(shares.items()):
        create.refund_charge(
            session,
            charge_id=held.charge_id,
            buyer_id=held.intent["buyer_id"],
            amount_minor=share,
            order_id=order_id,
            request=request.part(number),
            description="Payment that was held back sent back",
            source=accounts.QUARANTINE,
            now=now,
        )


def _credit_wallet(
    session: Session,
    held: LockedQuarantinedCharge,
    shares: Mapping[UUID, int],
    *,
    request: create.RefundCause,
    now: datetime,
) -> None:
    for number, (order_id, share) in enumerate(shares.items()):
        create.credit_charge_to_wallet(
            session,
            buyer_id=held.intent["buyer_id"],
            amount_minor=share,
            order_id=order_id,
            request=request.part(number),
            description="Payment that was held back credited to the wallet",
            source=accounts.QUARANTINE,
            now=now,
        )


def _accept_for_orders(
    session: Session, held: LockedQuarantinedCharge, *, officer_id: UUID, now: datetime
) -> None:
    """Put the money into the escrow of the orders that wait: it pays them, or is a part of what they cost."""
    waiting = held.waiting
    if not waiting:
        raise QuarantineActionNotAllowedError(
            "No order waits for this money: send it back, or give it to the wallet."
        )
    if not held.minor:
        raise QuarantineActionNotAllowedError(
            "There is no money of it in the books that could pay for anything."
        )
    due = [order.due_minor for order in waiting]
    whole = held.minor >= sum(due)
    # All of them or none: each is paid in part, so that the difference pays them all at once.
    parts = due if whole else split_by_weights(held.minor, due)
    buyer = accounts.wallet(held.intent["buyer_id"])
    postings = []
    for order, part in zip(waiting, parts, strict=True):
        if part:
            postings += [
                Posting(accounts.QUARANTINE, "debit", part, order.id),
                Posting(buyer, "credit", part, order.id),
                Posting(buyer, "debit", part, order.id),
                Posting(accounts.ESCROW, "credit", part, order.id),
            ]
    if whole:
        for order in waiting:
            orders.mark_paid(
                session,
                order=order,
                reference=held.intent["reference"],
                channel=held.channel,
                paid_at=now,
                actor=Actor("staff", officer_id),
                now=now,
            )
        orders.consume_stock(session, paid=waiting)
    else:
        order_ids = [order.id for order in waiting]
        _ADD_ACCEPTED_AMOUNTS.run(session, order_ids=order_ids, parts=parts, now=now)
    transaction_id = post_transaction(
        session,
        kind="payment" if whole else "held_payment",
        source=held.cause,
        description=f"Payment that was held back for {', '.join(order.number for order in waiting)}",
        postings=postings,
        now=now,
    )
    _MARK_CHARGE_APPLIED.run(session, charge_id=held.charge_id, transaction_id=transaction_id)
    if whole:
        _MARK_INTENT_SUCCEEDED.run(
            session,
            intent_id=held.intent["id"],
            status=states.INTENT.target(held.intent["status"], "settle"),
            channel=held.channel,
            now=now,
        )
        request = create.RefundCause(
            held.cause, "It was more than the orders cost that wait.", requested_by=officer_id
        )
        _credit_wallet(session, held, held.excess(), request=request, now=now)


def _notify_buyer(
    session: Session,
    held: LockedQuarantinedCharge,
    action: QuarantineAction,
    after: Sequence[LockedOrder],
    *,
    now: datetime,
) -> None:
    notify(
        session,
        user_id=held.intent["buyer_id"],
        type="payment_resolved",
        title="We looked into your payment",
        body=_resolution_message(held, action, after),
        link=f"/orders/{held.order_id}" if held.order_id else "/orders",
        cause=held.cause,
        now=now,
    )


def _resolution_message(
    held: LockedQuarantinedCharge, action: QuarantineAction, after: Sequence[LockedOrder]
) -> str:
    """Tell where the money is, all of it, and what is left to pay, of the orders that wait for it."""
    amount, waiting = format_naira(held.minor), ", ".join(order.number for order in held.waiting)
    due = sum(order.due_minor for order in after if order.status == order_states.PENDING_PAYMENT)
    if action == "accept_rest":
        excess = sum(held.excess().values())
        kept = format_naira(held.minor - excess)
        if due:
            return (
                f"{amount} were accepted for {waiting}, and {format_naira(due)} are left to pay. Open the order within"
                " a day, and pay: the payment page asks for exactly the rest."
            )
        paid = f"{kept} were accepted: {waiting} {'are' if len(held.waiting) > 1 else 'is'} paid."
        return (
            f"{paid} {format_naira(excess)} were more than was due, and are in your wallet."
            if excess
            else paid
        )
    if action == "wallet":
        where = f"{amount} are in your wallet."
    elif held.minor:
        where = f"{amount} go back to where you paid from."
    else:
        where = "Your payment in another currency goes back to where you paid from."
    again = f" {format_naira(due)} are due for {waiting}: open the order, and pay it anew." if due else ""
    return where + again
