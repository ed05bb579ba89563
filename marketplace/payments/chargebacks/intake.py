"""Chargebacks reported by the gateway: a customer's bank disputes a charge.

A reported dispute is stored and freezes the escrow of the orders that the charge paid. Unsent refunds wait for the end
of the dispute. Staff respond to the dispute in the gateway's dashboard. A frozen order stays ``disputed`` until staff
rule on the order, even after a won dispute. The loss of a lost dispute is posted at once for orders whose money has
left escrow.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.money import CURRENCY
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders, states
from marketplace.orders.transitions import GATEWAY, LockedOrder
from marketplace.payments import texts
from marketplace.payments.chargebacks.losses import (
    ChargebackAllocation,
    record_chargeback_loss,
    sum_paid_by_order,
)
from marketplace.payments.charges.apply import UnknownReferenceError, lock_orders_of_reference
from marketplace.payments.models import GatewayCharge, Refund
from marketplace.payments.refunds import buyer_accounts, create, notifications
from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON, GatewayDispute

_log = structlog.get_logger(__name__)
ORDER_CHARGED_BACK_TOPIC = "order.charged-back"

# Reports may arrive out of order, so an open status never replaces a resolved one. A report with a recognized outcome
# may replace one without.
_UPSERT_CHARGEBACK = Statement(
    text(
        """
        INSERT INTO charge_disputes (gateway_dispute_id, intent_id, gateway_charge_id, status, gateway_status,
            resolution, category, amount_minor, due_at, opened_at, resolved_at, updated_at)
        VALUES (:gateway_dispute_id, :intent_id, :gateway_charge_id, :status, :gateway_status, :resolution,
            :category, :amount_minor, :due_at, :now, :resolved_at, :now)
        ON CONFLICT (gateway_dispute_id) DO UPDATE SET status = excluded.status,
            gateway_status = excluded.gateway_status, resolution = excluded.resolution,
            gateway_charge_id = coalesce(excluded.gateway_charge_id, charge_disputes.gateway_charge_id),
            category = coalesce(excluded.category, charge_disputes.category),
            amount_minor = coalesce(excluded.amount_minor, charge_disputes.amount_minor),
            due_at = coalesce(excluded.due_at, charge_disputes.due_at),
            resolved_at = excluded.resolved_at, updated_at = excluded.updated_at
        WHERE charge_disputes.status = 'open' OR (excluded.status = 'resolved'
            AND excluded.resolution = ANY(:clear) AND coalesce(charge_disputes.resolution, '') <> ALL(:clear))
        RETURNING id, gateway_charge_id, amount_minor
        """
    )
)


def record_chargeback(session: Session, *, reported: GatewayDispute, is_final: bool, now: datetime) -> bool:
    """Record a chargeback that the gateway reports, freeze the affected orders and update alerts.

    The end of a lost dispute also posts the loss. Reports may repeat and arrive in any order. Rows are locked in this
    sequence: orders by id with their escrow, charges, the chargeback, balances.

    :param is_final: whether the report is about the end of the dispute
    :return: whether the report changed the chargeback; a report after the end does not
    :raises UnknownReferenceError: no payment has the reference, or the charge is not recorded yet
    """
    intent_id, locked_orders = lock_orders_of_reference(session, reported.reference)
    # Refunds lock the charge too, so a concurrent refund either sees the dispute or precedes the dispute.
    all_charges = session.scalars(
        select(GatewayCharge)
        .where(GatewayCharge.intent_id == intent_id)
        .order_by(GatewayCharge.id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).all()
    stored = _UPSERT_CHARGEBACK.first(
        session,
        gateway_dispute_id=reported.id,
        intent_id=intent_id,
        gateway_charge_id=_reported_charge_id(reported, all_charges),
        status="resolved" if is_final else "open",
        gateway_status=reported.status or None,
        resolution=reported.resolution or None,
        category=reported.category or None,
        amount_minor=reported.amount_minor,
        due_at=reported.due_at,
        resolved_at=now if is_final else None,
        clear=[DISPUTE_WON, DISPUTE_LOST],
        now=now,
    )
    if stored is None:
        return False
    charges = _filter_disputed_charges(all_charges, stored["gateway_charge_id"])
    # Quarantined and returned charges paid no order. Another charge may have paid other orders of the checkout.
    paid_by_order = sum_paid_by_order(session, charge_ids=[charge.id for charge in charges])
    frozen = _freeze_orders(
        session,
        [order for order in locked_orders if order.id in paid_by_order and not reported.is_won],
        reported,
        now=now,
    )
    for order in frozen:
        _notify_vendor(session, order, now=now)
    for order_id in paid_by_order:
        # The disputes area opens the dispute of the order, or joins it.
        outbox.enqueue(
            session,
            queue=queues.WEBHOOKS,
            topic=ORDER_CHARGED_BACK_TOPIC,
            payload={"orderId": str(order_id)},
            due_at=now,
        )
    allocations: list[ChargebackAllocation] = []
    if is_final and reported.is_lost:
        allocations = record_chargeback_loss(
            session,
            dispute_id=stored["id"],
            charges=[charge for charge in charges if charge.currency == CURRENCY],
            amount_minor=stored["amount_minor"],
            locked_orders=locked_orders,
            now=now,
        )
    waiting_refunds = _pause_or_resume_refunds(
        session, stored["id"], charges, has_clear_outcome=is_final and reported.has_known_outcome, now=now
    )
    _update_alerts(
        session,
        stored["id"],
        reported,
        is_final=is_final,
        facts=_alert_facts(
            stored["id"],
            reported,
            locked_orders=locked_orders,
            frozen=frozen,
            waiting_refunds=waiting_refunds,
        ),
        allocations=allocations,
        now=now,
    )
    return True


def _reported_charge_id(reported: GatewayDispute, charges: Sequence[GatewayCharge]) -> str | None:
    """Return the charge id that a dispute names, if the charge can be identified.

    A charge that was reported without an id is stored under its reference. The dispute may name that charge.
    """
    names = {charge.gateway_charge_id for charge in charges}
    may_be_another = reported.charge_id not in names and reported.reference in names
    return None if may_be_another else reported.charge_id or None


def _filter_disputed_charges(
    charges: Sequence[GatewayCharge], charge_id: str | None
) -> Sequence[GatewayCharge]:
    """Select the charges that a dispute concerns.

    A dispute without a charge id concerns the applied charges, or all charges if none was applied.

    :raises UnknownReferenceError: the charge is not recorded yet; freezing its order now would be too early
    """
    disputed = [charge for charge in charges if charge_id is None or charge.gateway_charge_id == charge_id]
    if not disputed:
        raise UnknownReferenceError("the disputed charge is not recorded")
    return [charge for charge in disputed if charge.outcome == "applied"] or disputed


def _pause_or_resume_refunds(
    session: Session,
    dispute_id: UUID,
    charges: Sequence[GatewayCharge],
    *,
    has_clear_outcome: bool,
    now: datetime,
) -> Sequence[Refund]:
    """Enqueue pending refunds of the charges after the dispute, or notify the buyer that unsent refunds wait.

    :return: the waiting refunds
    """
    charge_ids = [charge.id for charge in charges]
    if has_clear_outcome:
        pending = select(Refund.id).where(Refund.charge_id.in_(charge_ids), Refund.status == "pending")
        for refund_id in session.scalars(pending.order_by(Refund.id)):
            create.enqueue_task(session, refund_id=refund_id, now=now)
        return []
    waiting = [
        refund
        for refund in buyer_accounts.lock_unsent_refunds(session, charge_ids=charge_ids)
        if refund.status == "pending"
    ]
    for refund in waiting:
        notifications.notify_refund_waiting_for_bank(session, refund, dispute_id=dispute_id, now=now)
    return waiting


def _freeze_orders(
    session: Session, orders_to_freeze: Sequence[LockedOrder], reported: GatewayDispute, *, now: datetime
) -> list[LockedOrder]:
    """Freeze the orders that are not released, refunded or already disputed."""
    frozen = [order for order in orders_to_freeze if states.ORDER.allows(order.status, states.CHARGE_DISPUTE)]
    for order in frozen:
        orders.freeze_order(
            session,
            order=order,
            trigger=states.CHARGE_DISPUTE,
            actor=GATEWAY,
            note=f"The buyer's bank disputes the payment ({reported.id})",
            now=now,
        )
    return frozen


def _notify_vendor(session: Session, order: LockedOrder, *, now: datetime) -> None:
    """Notify the vendor not to hand over the goods; the buyer already knows of the dispute."""
    notify(
        session,
        user_id=order.vendor_user_id,
        type="order_disputed",
        title=texts.ORDER_DISPUTED_TITLE,
        body=texts.ORDER_DISPUTED_BODY.format(order_number=order.number),
        link=f"/orders/{order.id}",
        cause=f"order:{order.id}:charge-dispute",
        now=now,
    )


def _alert_facts(
    dispute_id: UUID,
    reported: GatewayDispute,
    *,
    locked_orders: Sequence[LockedOrder],
    frozen: Sequence[LockedOrder],
    waiting_refunds: Sequence[Refund],
) -> dict[str, Any]:
    return {
        "disputeId": dispute_id,
        "reference": reported.reference,
        "status": reported.status,
        "category": reported.category,
        "amountMinor": reported.amount_minor,
        "dueAt": reported.due_at,
        "orders": [
            {"id": order.id, "number": order.number, "was": order.status, "frozen": order in frozen}
            for order in locked_orders
        ],
        "refundsWaiting": [
            {"id": refund.id, "amountMinor": refund.amount_minor} for refund in waiting_refunds
        ],
    }


def _update_alerts(
    session: Session,
    dispute_id: UUID,
    reported: GatewayDispute,
    *,
    is_final: bool,
    facts: dict[str, Any],
    allocations: Sequence[ChargebackAllocation],
    now: datetime,
) -> None:
    # The subject is our own id: alerts would redact the gateway's dispute number, which looks like personal data.
    arguments: dict[str, Any] = {"subject": f"charge-dispute:{dispute_id}", "now": now}
    if not is_final:
        raise_alert(
            session, identifier="CHARGE_DISPUTED", title=texts.ALERT_CHARGE_DISPUTED, facts=facts, **arguments
        )
        return
    facts = facts | {
        "resolution": reported.resolution,
        "booked": [
            {
                "orderId": allocation.order_id,
                "vendorMinor": allocation.vendor_minor,
                "platformMinor": allocation.platform_minor,
                "buyerMinor": allocation.duplicate_minor,
                "undecidedMinor": allocation.undecided_minor,
                "unsentMinor": allocation.cancelled_refund_minor,
            }
            for allocation in allocations
        ],
    }
    identifiers: list[AlertIdentifier] = ["CHARGE_DISPUTED"]
    if reported.has_known_outcome:
        raise_alert(
            session,
            identifier="CHARGE_DISPUTE_RESOLVED",
            severity="SEV-3" if reported.is_won else "SEV-2",
            title=texts.ALERT_CHARGE_DISPUTE_RESOLVED,
            facts=facts | {"inOurFavour": reported.is_won},
            **arguments,
        )
        identifiers.append("CHARGE_DISPUTE_UNCLEAR")
    else:
        raise_alert(
            session,
            identifier="CHARGE_DISPUTE_UNCLEAR",
            title=texts.ALERT_CHARGE_DISPUTE_UNCLEAR,
            facts=facts,
            **arguments,
        )
    resolve_alert(session, identifier=identifiers, note=texts.ALERT_CHARGE_DISPUTE_ENDED, **arguments)
