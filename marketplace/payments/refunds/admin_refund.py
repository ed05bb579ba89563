"""Full and partial refunds by officers: from escrow or, after the release, by a clawback.

The vendor bears a clawback up to the amount of the order that was released to the vendor. The platform bears the rest.
The vendor's payable balance does not change. The debt is posted in the vendor's receivable account and deducted from
the next payouts. A chargeback of released money is split in the same way.
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
from marketplace.payments import texts
from marketplace.payments.guards import ensure_no_conflict_of_interest, ensure_order_not_charged_back
from marketplace.payments.models import Refund
from marketplace.payments.refunds import create, notifications
from marketplace.payments.refunds.create import Destination

_RELEASED_ESCROW_STATUSES = frozenset({"released", "partially_refunded"})
_REFUNDED_TEXTS: dict[Destination, str] = {
    "wallet": texts.ORDER_REFUNDED_TO_WALLET,
    "gateway": texts.ORDER_REFUNDED_TO_GATEWAY,
}


class EscrowDeficitError(MarketplaceError):
    """The refund exceeds the order's escrow balance or, for a clawback, the released amount not yet refunded."""

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
    """A product of an order and the number of units to refund."""

    product_id: UUID
    quantity: int


@dataclass(frozen=True)
class RefundRequest:
    """A refund that an officer requests.

    :param amount_minor: kobo; none for the price of the items or, without items, the full amount available
    :param items: refunded units; each unit can be refunded once and is not shipped any more
    """

    destination: Destination
    reason: str
    amount_minor: int | None = None
    items: Sequence[RefundItem] = ()


@dataclass(frozen=True)
class ClawbackShares:
    """The vendor's and the platform's shares of a clawback and the vendor's total debt, in kobo."""

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


def price_refund(session: Session, *, order: LockedOrder, refund_request: RefundRequest) -> int:
    """Return the amount of a refund from a locked order's escrow, in kobo.

    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises ValidationError: amount and items disagree
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    """
    return _compute_refund_amount(
        refund_request,
        _fetch_order_lines(session, order_id=order.id),
        available_minor=order.escrow_balance_minor,
        limit_text=texts.ABOVE_ESCROW_BALANCE,
    )


def process_refund(
    session: Session,
    *,
    order_id: UUID,
    act: Act,
    refund_request: RefundRequest,
) -> ProcessedRefund:
    """Refund an order from escrow, for an officer.

    A full refund closes the order as refunded. A partial refund leaves the order's status unchanged, and the rest is
    released or refunded later. Vendor and platform bear a partial refund in proportion to the shares of a full release.

    :param order_id: an order with held or frozen escrow
    :raises NotFoundError: the order does not exist
    :raises ConflictOfInterestError: the officer is a party to the order
    :raises AlreadyReleasedError: the escrow is released, so the refund needs a clawback
    :raises IllegalTransitionError: the order is unpaid or closed
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises ValidationError: amount and items disagree
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    """
    order = lock_order(session, order_id=order_id)
    ensure_no_conflict_of_interest(
        session, officer_id=act.person_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
    )
    if order.escrow_status in _RELEASED_ESCROW_STATUSES:
        raise AlreadyReleasedError(texts.ESCROW_ALREADY_RELEASED.format(escrow_status=order.escrow_status))
    states.ORDER.target(order.status, states.REFUND)
    ensure_order_not_charged_back(session, order_id=order.id)
    amount_minor, refunds = refund_from_escrow(
        session, order=order, actor=Actor("staff", act.person_id), refund_request=refund_request, now=act.now
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
    return ProcessedRefund(updated_order, amount_minor, refunds, clawback=None)


def refund_from_escrow(
    session: Session,
    *,
    order: LockedOrder,
    actor: Actor,
    refund_request: RefundRequest,
    returned_by_bank_minor: int = 0,
    now: datetime,
) -> tuple[int, Sequence[Refund]]:
    """Refund a locked order from escrow, and notify both parties.

    The caller checks rights, the order's status and chargebacks.

    :param returned_by_bank_minor: the part of the refund in kobo that a lost chargeback has returned
    :return: the amount in kobo with the returned part, and the refunds
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises ValidationError: amount and items disagree
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    """
    available_minor = order.escrow_balance_minor
    lines = _fetch_order_lines(session, order_id=order.id)
    amount_minor = _compute_refund_amount(
        refund_request, lines, available_minor=available_minor, limit_text=texts.ABOVE_ESCROW_BALANCE
    )
    create.lock_charges(session, order=order)
    _debit_escrow(session, order, refund_request, amount_minor, actor, now=now)
    left_minor = amount_minor - returned_by_bank_minor
    refunds: Sequence[Refund] = ()
    if left_minor:
        refunds = create.refund_order(
            session,
            order=order,
            amount_minor=left_minor,
            destination=refund_request.destination,
            refund_cause=create.RefundCause(
                f"order:{order.id}:refund:{order.refunded_minor}", refund_request.reason, actor.id
            ),
            now=now,
        )
        _notify_parties(
            session,
            order,
            refund_request,
            left_minor,
            lines,
            is_full=amount_minor == available_minor,
            now=now,
        )
    return amount_minor, refunds


def claw_back(
    session: Session,
    *,
    order_id: UUID,
    act: Act,
    refund_request: RefundRequest,
) -> ProcessedRefund:
    """Refund an order after the release of its escrow, for an officer.

    The order stays delivered. Rows are locked in this sequence: the order with its escrow, charges, balances.

    :param order_id: an order with released escrow
    :param refund_request: without amount and items, refunds the released amount that was not refunded before
    :raises NotFoundError: the order does not exist
    :raises ConflictOfInterestError: the officer is a party to the order
    :raises EscrowNotReleasedError: escrow still holds the money
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises ValidationError: amount and items disagree
    :raises IllegalTransitionError: the order is unpaid, cancelled or refunded
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it
    :raises EscrowDeficitError: the amount exceeds the released amount that was not refunded before
    """
    order = lock_order(session, order_id=order_id)
    ensure_no_conflict_of_interest(
        session, officer_id=act.person_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
    )
    if order.escrow_status not in _RELEASED_ESCROW_STATUSES:
        states.ORDER.target(order.status, states.REFUND)
        raise EscrowNotReleasedError.of("clawback", "Must be false while escrow still holds the money.")
    ensure_order_not_charged_back(session, order_id=order.id)
    amount_minor = _compute_refund_amount(
        refund_request,
        _fetch_order_lines(session, order_id=order.id),
        available_minor=order.net_released_minor,
        limit_text=texts.ABOVE_RELEASED_BALANCE,
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
    placeholders = {"amount": format_naira(amount_minor), "order_number": order.number}
    vendor_debt = notifications.vendor_debt_message(vendor_minor, total_debt_minor)
    notifications.notify_parties_of_clawback(
        session,
        order,
        {
            order.buyer_id: _REFUNDED_TEXTS[refund_request.destination].format(**placeholders),
            order.vendor_user_id: " ".join(
                [texts.ORDER_REFUNDED_FOR_VENDOR.format(**placeholders), texts.REASON_ON_ORDER, vendor_debt]
            ),
        },
        cause=f"order:{order.id}:clawback:{order.clawed_back_minor}",
        now=act.now,
    )
    return ProcessedRefund(
        order, amount_minor, refunds, ClawbackShares(vendor_minor, platform_minor, total_debt_minor)
    )


def allocate_clawback(order: LockedOrder, amount_minor: int) -> Sequence[create.DebitSource]:
    """Allocate a clawback of a released order to the vendor first, then to the platform.

    :param order: locked, with released escrow
    :param amount_minor: kobo, at most the released amount that was not refunded before
    :return: the vendor's and the platform's account with the share of each in kobo, which may be 0
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
    """Fetch the items of an order by product id, sorted by position."""
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
    """Debit the order's escrow; a full refund also closes the order."""
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
    limit_text: str,
) -> int:
    """Compute the amount to refund: as requested, the price of the items, or all that is available.

    :param lines: the order's items by product id
    :param available_minor: refundable kobo
    :param limit_text: error text for an amount that exceeds the available amount
    :return: kobo
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises ValidationError: amount and items disagree
    :raises EscrowDeficitError: the amount exceeds the available amount
    """
    items_minor = _price_items(lines, refund_request.items) if refund_request.items else None
    if items_minor is not None and refund_request.amount_minor not in (None, items_minor):
        raise ValidationError(
            texts.ITEMS_AMOUNT_MISMATCH.format(items_minor=items_minor),
            invalid_params=[InvalidParam("amountMinor", f"Must be {items_minor}, the price of the items.")],
        )
    amount_minor = refund_request.amount_minor or items_minor or available_minor
    if not 0 < amount_minor <= available_minor:
        raise EscrowDeficitError(
            limit_text.format(available_minor=available_minor),
            invalid_params=[InvalidParam("amountMinor", f"Must not exceed {available_minor}.")],
        )
    return amount_minor


def _price_items(lines: Mapping[UUID, OrderItem], items: Sequence[RefundItem]) -> int:
    """Compute the price of the items in kobo.

    :raises ItemsNotRefundableError: the order does not have these units left to refund
    """
    total_minor, faults = 0, []
    for index, item in enumerate(items):
        line = lines.get(item.product_id)
        if line is None:
            faults.append(InvalidParam(f"items[{index}].productId", "Is not in the order."))
        elif item.quantity > line.quantity - line.refunded_quantity:
            left = line.quantity - line.refunded_quantity
            faults.append(
                InvalidParam(f"items[{index}].quantity", f"Must not exceed {left}, the units left to refund.")
            )
        else:
            total_minor += line.unit_price_minor * item.quantity
    if faults:
        raise ItemsNotRefundableError(
            "The order does not have all of these items left to refund.", invalid_params=faults
        )
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
    """Describe an officer's refund for the audit log."""
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
    """Notify buyer and vendor of amount and items.

    The officer's reason is left out, because both parties can read the reason in the order's events.
    """
    placeholders = {"amount": format_naira(amount_minor), "order_number": order.number}
    item_list = ", ".join(
        f"{item.quantity} x {lines[item.product_id].title}" for item in refund_request.items
    )
    shared = [texts.ORDER_REFUNDED_ITEMS.format(items=item_list)] if item_list else []
    shared.append(texts.ORDER_REFUNDED_CLOSED if is_full else texts.ORDER_REFUNDED_OPEN)
    restocked = order.shipped_at is None and (is_full or item_list)
    body_by_user = {
        order.buyer_id: " ".join(
            [_REFUNDED_TEXTS[refund_request.destination].format(**placeholders), *shared]
        ),
        order.vendor_user_id: " ".join(
            [
                texts.ORDER_REFUNDED_FOR_VENDOR.format(**placeholders),
                texts.REASON_ON_ORDER,
                *shared,
                *([texts.ORDER_REFUNDED_RESTOCKED] if restocked else []),
            ]
        ),
    }
    for user_id, body in body_by_user.items():
        notify(
            session,
            user_id=user_id,
            type="order_refunded",
            title=texts.ORDER_REFUNDED_TITLE if is_full else texts.ORDER_PARTLY_REFUNDED_TITLE,
            body=body,
            link=f"/orders/{order.id}",
            cause=f"order:{order.id}:refund:{order.refunded_minor}",
            now=now,
        )
