"""Refunds by officers: wholly or in part, out of escrow or, after its release, by a clawback.

The vendor bears a clawback up to what they had of the order, the platform what is beyond that. The vendor's balance of
what they are owed stays as it is: what they owe has an account of its own, which is taken from their next payouts
first. A chargeback of released money is borne likewise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.kernel.errors import ConflictError, InvalidParam, MarketplaceError, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.notifications.operations import notify
from marketplace.orders import inventory, operations as orders, states
from marketplace.orders.models import OrderItem
from marketplace.orders.pricing import allocate_after, split_escrow
from marketplace.orders.transitions import Actor, LockedOrder, lock_order, record_clawback
from marketplace.payments.guards import ensure_no_conflict_of_interest, ensure_order_not_charged_back
from marketplace.payments.models import Refund
from marketplace.payments.refunds import create, notifications
from marketplace.payments.refunds.create import Destination

_RELEASED_ESCROW_STATUSES = frozenset({"released", "partially_refunded"})
_DESTINATION_TEXTS = {"wallet": "to your wallet", "gateway": "to where you paid from"}


class EscrowDeficitError(MarketplaceError):
    """The refund exceeds the order's escrow balance."""

    reason = "escrow-balance-deficit"

    code: ClassVar[str] = "ESCROW_BALANCE_DEFICIT"


class AlreadyReleasedError(ConflictError):
    """The escrow has already been released to the vendor."""

    reason = "escrow-already-released"


class EscrowNotReleasedError(ValidationError):
    """The order's escrow still holds the money, so there is nothing to claw back."""

    reason = "escrow-not-released"


class ItemsNotRefundableError(ValidationError):
    """The refund names more units of an item than the order has left to refund."""

    reason = "items-not-refundable"


@dataclass(frozen=True)
class RefundItem:
    """Units of a product of the order."""

    product_id: UUID
    quantity: int


@dataclass(frozen=True)
class RefundRequest:
    """A refund that an officer requests.

    :param amount_minor: kobo; none takes what the items cost, or all that escrow holds
    :param items: what it is for: their price is the amount, each piece is refunded once, and is not to be shipped
    """

    destination: Destination
    reason: str
    amount_minor: int | None = None
    items: Sequence[RefundItem] = ()


@dataclass(frozen=True)
class ClawbackShares:
    """The vendor's and the platform's share of a clawback, and the vendor's total debt, in kobo."""

    vendor_minor: int
    platform_minor: int
    vendor_owes_minor: int


@dataclass(frozen=True)
class ProcessedRefund:
    """An order after an officer refunded it, and the refunds that were created."""

    order: LockedOrder
    amount_minor: int
    refunds: Sequence[Refund]
    clawback: ClawbackShares | None


def process_refund(
    session: Session,
    *,
    order_id: UUID,
    act: Act,
    refund_request: RefundRequest,
) -> ProcessedRefund:
    """Refund an order out of its escrow, for an officer.

    All of it ends the order as refunded. A part leaves the order where it is: the rest is released, or refunded,
    later, and vendor and platform bear the part in proportion to what each would have had.

    :param order_id: any order whose escrow is held or frozen
    :param refund_request: how much, whereto and why
    :raises NotFoundError: there is no such order
    :raises ConflictOfInterestError: the officer is a party of it
    :raises AlreadyReleasedError: the vendor has the money: it takes a clawback
    :raises IllegalTransitionError: it is not paid, or over
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises ItemsNotRefundableError: an item is not of the order, or not so often
    :raises ValidationError: the items cost another amount
    :raises EscrowDeficitError: escrow holds less
    """
    order = lock_order(session, order_id=order_id)
    ensure_no_conflict_of_interest(
        session, officer_id=act.person_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
    )
    if order.escrow_status in _RELEASED_ESCROW_STATUSES:
        raise AlreadyReleasedError(
            f"The order is {order.status} and its escrow {order.escrow_status}: the vendor has the money. Getting it"
            " back from the vendor takes a clawback: send clawback: true."
        )
    states.ORDER.target(order.status, states.REFUND)
    ensure_order_not_charged_back(session, order_id=order.id)
    available_minor = order.escrow_balance_minor
    lines = _fetch_order_lines(session, order_id=order.id)
    amount_minor = _compute_refund_amount(
        refund_request, lines, available_minor=available_minor, limit_label="Escrow holds"
    )
    create.lock_charges(session, order=order)
    _debit_escrow(session, order, refund_request, amount_minor, Actor("staff", act.person_id), now=act.now)
    refunds = create.refund_order(
        session,
        order=order,
        amount_minor=amount_minor,
        destination=refund_request.destination,
        refund_cause=create.RefundCause(
            f"order:{order.id}:refund:{order.refunded_minor}", refund_request.reason, act.person_id
        ),
        now=act.now,
    )
    updated_order = lock_order(session, order_id=order_id)
    record_audit_entry(
        session,
        act=act,
        action="order.refund",
        target_type="order",
        target_id=str(order.id),
        before=_audit_snapshot(order),
        after=_audit_snapshot(updated_order) | _refund_audit_details(refund_request, amount_minor, refunds),
    )
    _notify_parties(
        session,
        order,
        refund_request,
        amount_minor,
        lines,
        is_full=amount_minor == available_minor,
        now=act.now,
    )
    return ProcessedRefund(updated_order, amount_minor, refunds, clawback=None)


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
    :raises EscrowNotReleasedError: escrow still holds the money
    :raises ItemsNotRefundableError: an item is not of the order, or not so often
    :raises ValidationError: the items cost another amount
    :raises IllegalTransitionError: the order is not paid, or was cancelled or refunded
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises EscrowDeficitError: it is more than was released and did not go back before
    """
    order = lock_order(session, order_id=order_id)
    ensure_no_conflict_of_interest(
        session, officer_id=act.person_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
    )
    if order.escrow_status not in _RELEASED_ESCROW_STATUSES:
        states.ORDER.target(order.status, states.REFUND)
        raise EscrowNotReleasedError.of(
            "clawback", "Escrow still holds the money: it is refunded out of it. Leave this out."
        )
    ensure_order_not_charged_back(session, order_id=order.id)
    amount_minor = _compute_refund_amount(
        refund_request,
        _fetch_order_lines(session, order_id=order.id),
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
        | _refund_audit_details(refund_request, amount_minor, refunds),
    )
    amount = format_naira(amount_minor)
    notifications.notify_parties_of_clawback(
        session,
        order,
        {
            order.buyer_id: f"{amount} of order {order.number} go back"
            f" {_DESTINATION_TEXTS[refund_request.destination]}.",
            order.vendor_user_id: f"{amount} of order {order.number} went back to its buyer."
            f" {notifications.vendor_debt_message(vendor_minor, total_debt_minor)}",
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


def _fetch_order_lines(session: Session, *, order_id: UUID) -> dict[UUID, OrderItem]:
    """Fetch the items of an order by product, in their order."""
    return {
        item.product_id: item
        for item in session.scalars(
            select(OrderItem)
            .where(OrderItem.order_id == order_id)
            .order_by(OrderItem.position)
            .execution_options(populate_existing=True)
        )
    }


def _debit_escrow(
    session: Session,
    order: LockedOrder,
    refund_request: RefundRequest,
    amount_minor: int,
    actor: Actor,
    *,
    now: datetime,
) -> None:
    """Take it out of the escrow's record; all of it ends the order."""
    if amount_minor == order.escrow_balance_minor:
        orders.refund_fully(session, order=order, actor=actor, reason=refund_request.reason, now=now)
    else:
        inventory.refund_partially(
            session,
            order=order,
            quantities={item.product_id: item.quantity for item in refund_request.items},
            amount_minor=amount_minor,
            actor=actor,
            reason=refund_request.reason,
            now=now,
        )


def _compute_refund_amount(
    refund_request: RefundRequest,
    lines: Mapping[UUID, OrderItem],
    *,
    available_minor: int,
    limit_label: str,
) -> int:
    """Give what is to be refunded, in kobo: named, or of the items, or all that there is.

    :param lines: of the order, by product
    :param available_minor: kobo that there are
    :param limit_label: begins the sentence that tells how much there is
    :raises ItemsNotRefundableError: an item is not of the order, or not so often
    :raises ValidationError: the items cost another amount
    :raises EscrowDeficitError: there is less
    """
    items_minor = _price_items(lines, refund_request.items) if refund_request.items else None
    if items_minor is not None and refund_request.amount_minor not in (None, items_minor):
        raise ValidationError(
            "The items cost another amount. Leave it out; or name no items, and it is for no piece of the order.",
            invalid_params=[InvalidParam("amountMinor", f"The items cost {items_minor}.")],
        )
    amount_minor = refund_request.amount_minor or items_minor or available_minor
    if not 0 < amount_minor <= available_minor:
        raise EscrowDeficitError(
            f"{limit_label} {available_minor} kobo of the order, not {amount_minor}.",
            invalid_params=[InvalidParam("amountMinor", f"{limit_label} {available_minor}.")],
        )
    return amount_minor


def _price_items(lines: Mapping[UUID, OrderItem], items: Sequence[RefundItem]) -> int:
    """Give what the items cost, none of whose pieces may have been refunded before."""
    total_minor, faults = 0, []
    for index, item in enumerate(items):
        line = lines.get(item.product_id)
        if line is None:
            faults.append(InvalidParam(f"items[{index}].productId", "Is not in the order."))
        elif item.quantity > line.quantity - line.refunded_quantity:
            fewer = (
                f", and {line.refunded_quantity} of them refunded by now" if line.refunded_quantity else ""
            )
            faults.append(
                InvalidParam(f"items[{index}].quantity", f"The order has {line.quantity} of it{fewer}.")
            )
        else:
            total_minor += line.unit_price_minor * item.quantity
    if faults:
        raise ItemsNotRefundableError("Not all of it is left in the order.", invalid_params=faults)
    return total_minor


def _audit_snapshot(order: LockedOrder) -> dict[str, Any]:
    return {
        "status": order.status,
        "escrowStatus": order.escrow_status,
        "heldMinor": order.escrow_balance_minor,
        "refundedMinor": order.refunded_minor,
    }


def _refund_audit_details(
    refund_request: RefundRequest, amount_minor: int, refunds: Sequence[Refund]
) -> dict[str, Any]:
    """Describe an officer's refund for the audit."""
    return {
        "amountMinor": amount_minor,
        "destination": refund_request.destination,
        "reason": refund_request.reason,
        "items": [
            {"productId": str(item.product_id), "quantity": item.quantity} for item in refund_request.items
        ],
        "refundIds": [str(refund.id) for refund in refunds],
    }


def _notify_parties(
    session: Session,
    order: LockedOrder,
    refund_request: RefundRequest,
    amount_minor: int,
    lines: Mapping[UUID, OrderItem],
    *,
    is_full: bool,
    now: datetime,
) -> None:
    """Notify both sides of amount and items; the officer's reason is in the trail, which both can read."""
    amount = format_naira(amount_minor)
    closing = "The order is over." if is_full else "The order goes on; the rest stays in escrow."
    item_list = ", ".join(
        f"{item.quantity} of {lines[item.product_id].title}" for item in refund_request.items
    )
    items_text = f" for {item_list}" if item_list else ""
    restocked = order.shipped_at is None and (is_full or item_list)
    destination_text = _DESTINATION_TEXTS[refund_request.destination]
    body_by_user = {
        order.buyer_id: f"{amount} of order {order.number} go back {destination_text}{items_text}. {closing}",
        order.vendor_user_id: f"{amount} of order {order.number} go back to its buyer{items_text}. {closing}"
        + (" Do not ship what was refunded: it is in stock again." if restocked else ""),
    }
    for user_id, body in body_by_user.items():
        notify(
            session,
            user_id=user_id,
            type="order_refunded",
            title="An order was refunded" if is_full else "An order was refunded in part",
            body=body,
            link=f"/orders/{order.id}",
            cause=f"order:{order.id}:refund:{order.refunded_minor}",
            now=now,
        )
