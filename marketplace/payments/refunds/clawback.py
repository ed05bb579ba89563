"""Clawbacks: money that goes back to its buyer after its release, by an officer, or because a bank took it.

The vendor bears it up to what they had of the order, the platform what is beyond that. The vendor's balance of what
they are owed stays as it is: what they owe has an account of its own, which is taken from their next payouts first.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.orders import inventory, states
from marketplace.orders.pricing import allocate_after, split_escrow
from marketplace.orders.transitions import Actor, LockedOrder, lock_order, record_clawback
from marketplace.payments.guards import ensure_no_conflict_of_interest, ensure_order_not_charged_back
from marketplace.payments.refunds import create
from marketplace.payments.refunds.admin_refund import (
    DESTINATION_TEXTS,
    RELEASED_ESCROW_STATUSES,
    ClawbackShares,
    ProcessedRefund,
    RefundRequest,
    compute_refund_amount,
    fetch_order_lines,
    refund_audit_details,
)


def claw_back(
    session: Session,
    *,
    order_id: UUID,
    act: Act,
    refund_request: RefundRequest,
) -> ProcessedRefund:
    """Refund an order whose money was released, for an officer.

    The order stays delivered. Rows are locked in the order: the order with its escrow, charges, balances.

    :param order_id: an order whose escrow is released
    :param refund_request: how much, whereto and why; without amount and items, all that did not go back before
    :raises NotFoundError: there is no such order
    :raises ConflictOfInterestError: the officer is a party of it
    :raises ValidationError: escrow still holds the money; or an item is not of the order, or not so often
    :raises IllegalTransitionError: the order is not paid, or was cancelled or refunded
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises EscrowDeficitError: it is more than was released and did not go back before
    """
    order = lock_order(session, order_id=order_id)
    ensure_no_conflict_of_interest(
        session, officer_id=act.person_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
    )
    if order.escrow_status not in RELEASED_ESCROW_STATUSES:
        states.ORDER.target(order.status, states.REFUND)
        raise ValidationError.of(
            "clawback", "Escrow still holds the money: it is refunded out of it. Leave this out."
        )
    ensure_order_not_charged_back(session, order_id=order.id)
    amount_minor = compute_refund_amount(
        refund_request,
        fetch_order_lines(session, order_id=order.id),
        available_minor=order.net_released_minor,
        limit_label="Vendor and platform have",
    )
    sources = allocate_clawback(order, amount_minor)
    record_clawback(
        session,
        order=order,
        amount_minor=amount_minor,
        actor=Actor("staff", act.person_id),
        note=refund_request.reason,
        now=act.now,
    )
    inventory.record_refunded_units(
        session, order=order, quantities={item.product_id: item.quantity for item in refund_request.items}
    )
    refunds = create.refund_sources(
        session,
        order=order,
        sources=sources,
        destination=refund_request.destination,
        refund_cause=create.RefundCause(
            f"clawback:{order.id}:{order.clawed_back_minor}", refund_request.reason, act.person_id
        ),
        now=act.now,
    )
    vendor_minor, platform_minor = (minor for _, minor in sources)
    total_debt_minor = fetch_balance(session, account=accounts.vendor_receivable(order.vendor_id))
    record_audit_entry(
        session,
        act=act,
        action="order.clawback",
        target_type="order",
        target_id=str(order.id),
        before={"clawedBackMinor": order.clawed_back_minor, "releasedMinor": order.released_minor},
        after={
            "clawedBackMinor": order.clawed_back_minor + amount_minor,
            "vendorMinor": vendor_minor,
            "platformMinor": platform_minor,
        }
        | refund_audit_details(refund_request, amount_minor, refunds),
    )
    amount = format_naira(amount_minor)
    notify_parties_of_clawback(
        session,
        order,
        {
            order.buyer_id: f"{amount} of order {order.number} go back"
            f" {DESTINATION_TEXTS[refund_request.destination]}.",
            order.vendor_user_id: f"{amount} of order {order.number} went back to its buyer."
            f" {vendor_debt_message(vendor_minor, total_debt_minor)}",
        },
        cause=f"order:{order.id}:clawback:{order.clawed_back_minor}",
        now=act.now,
    )
    return ProcessedRefund(
        order, amount_minor, refunds, ClawbackShares(vendor_minor, platform_minor, total_debt_minor)
    )


def allocate_clawback(order: LockedOrder, amount_minor: int) -> Sequence[create.DebitSource]:
    """Tell who bears what goes back of a released order: the vendor, then the platform.

    :param order: locked, its escrow released
    :param amount_minor: kobo; at most what did not go back before
    :return: the vendor's account and the platform's, each with its part; one of them may be 0
    """
    released = split_escrow(order.price, commission_minor=order.commission_minor).scaled_to(
        order.released_minor
    )
    vendor, platform = allocate_after(
        amount_minor,
        (released.vendor_minor, released.platform_minor),
        allocated_before_minor=order.clawed_back_minor,
    )
    return [(accounts.vendor_receivable(order.vendor_id), vendor), (accounts.PLATFORM_REVENUE, platform)]


def vendor_debt_message(vendor_minor: int, total_debt_minor: int) -> str:
    """Describe the vendor's share of a clawback and the vendor's total debt.

    :param vendor_minor: kobo of this one
    :param total_debt_minor: kobo in all
    """
    if not vendor_minor:
        return "You had given back all that you had of it: this part is ours."
    return (
        f"{format_naira(vendor_minor)} of it are yours to bear. In all you owe {format_naira(total_debt_minor)},"
        " which is taken from your next payouts."
    )


def notify_parties_of_clawback(
    session: Session, order: LockedOrder, bodies: Mapping[UUID, str], *, cause: str, now: datetime
) -> None:
    """Notify the parties of an order that released money of it was refunded.

    :param bodies: what each is told
    :param cause: names it once and for all
    """
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="order_clawed_back",
                title="A delivered order was refunded",
                body=body,
                link=f"/orders/{order.id}",
                cause=cause,
            )
            for user_id, body in bodies.items()
        ],
        now=now,
    )
