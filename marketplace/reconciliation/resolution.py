"""What finance does about what a reconciliation found: have the gateway asked, or book what it is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError
from marketplace.ledger import accounts
from marketplace.orders.models import Order
from marketplace.payments.conflict_of_interest import ensure_no_conflict_of_interest
from marketplace.payments.intents import lifecycle
from marketplace.payments.refunds import refund_events
from marketplace.payouts import states
from marketplace.payouts.models import PayoutTransferIntent
from marketplace.payouts.transfers import apply_status, transfer_events
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentGateway
from marketplace.reconciliation import adjustments, matching
from marketplace.reconciliation.adjustments import GATEWAY_COST, OWN_FUNDS, PAYOUT_RETURNED
from marketplace.reconciliation.models import Reconciliation, ReconciliationException
from marketplace.reconciliation.postings import post_gateway_movement

APPLY_TOPIC = "reconciliation.apply-charge"

POLL_GATEWAY = "ask"
RESOLUTIONS = (POLL_GATEWAY, OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED)
PROPOSED, RESOLVED = "proposed", "resolved"
STATES = (PROPOSED, RESOLVED)
_POSTED_RESOLUTIONS = frozenset({OWN_FUNDS, GATEWAY_COST})
# What is on its way to a buyer, a payee or an order is never the company's own.
ALLOWED_RESOLUTIONS: Mapping[str, frozenset[str]] = {
    "apply_charge": frozenset({POLL_GATEWAY}),
    "ask_about_refund": frozenset({POLL_GATEWAY}),
    "ask_about_payout": frozenset({POLL_GATEWAY}),
    "look_up_charge": _POSTED_RESOLUTIONS,
    "bear_refunded_charge": _POSTED_RESOLUTIONS,
    "look_up_payout": frozenset({PAYOUT_RETURNED}),
    "look_up_refund": _POSTED_RESOLUTIONS,
    "look_up_transfer": _POSTED_RESOLUTIONS,
    "look_up_movement": _POSTED_RESOLUTIONS,
    "look_up_settlement": frozenset({OWN_FUNDS}),
    "look_up_booking": _POSTED_RESOLUTIONS,
    "compare_amounts": _POSTED_RESOLUTIONS,
    "look_up_balance": frozenset(),
}


class DifferenceAlreadyResolvedError(ConflictError):
    """The difference is already resolved."""

    reason = "difference-already-resolved"


class SupersededRunError(ConflictError):
    """A later reconciliation exists, so the findings of this run may be outdated."""

    reason = "reconciliation-superseded"


class ResolutionNotAllowedError(ConflictError):
    """The difference does not allow this resolution."""

    reason = "resolution-not-allowed"


@dataclass(frozen=True)
class Decision:
    """What an officer decides: to have the gateway asked, or as what the difference is booked, and why."""

    resolution: str
    note: str


@dataclass(frozen=True)
class Resolution:
    """The resolution or proposal of a difference, and the amount posted to gateway_clearing in kobo."""

    exception_id: UUID
    state: str
    resolution: str
    booked_minor: int


def resolve_difference(
    session: Session,
    *,
    run_id: UUID,
    exception_id: UUID,
    decision: Decision,
    act: Act,
) -> Resolution:
    """Resolve a difference that a reconciliation found.

    ``ask`` has a worker ask the gateway, and take its word as that of an event. ``own_funds`` books the difference as
    the company's own money at the gateway, ``gateway_cost`` as what the gateway charged. ``came_back`` books a payout
    that the gateway does not have as reversed, so that its payee has the money again. It is for what the latest
    reconciliation found; the next one tells whether it agrees now. Payouts stay halted until two officers resume them.
    What the gateway holds less is booked out of the company's own funds only. Above a bound a difference, either way,
    is proposed by the first officer and booked by the same word of a second one.

    :param run_id: the reconciliation
    :param exception_id: what it found
    :param decision: the officer's
    :raises NotFoundError: the run found no such thing
    :raises DifferenceAlreadyResolvedError: it is resolved
    :raises SupersededRunError: there is a later run
    :raises ResolutionNotAllowedError: it is not to be resolved so
    :raises InsufficientOwnFundsError: the company's own funds do not cover it
    :raises ConflictOfInterestError: the officer is a party to its order or payout
    :raises SecondApproverRequiredError: the officer has proposed it
    """
    row = _lock_exception(session, run_id, exception_id)
    _ensure_officer_not_involved(session, row, act.person_id)
    difference = row.there_minor - row.here_minor
    _ensure_resolution_allowed(row.action, decision.resolution, difference)
    before = {
        "item": row.item,
        "differenceMinor": difference,
        "proposedBy": str(row.proposed_by) if row.proposed_by else None,
    }
    result = Resolution(exception_id, RESOLVED, decision.resolution, difference)
    if decision.resolution == POLL_GATEWAY:
        _enqueue_polling(session, row, now=act.now)
        result = replace(result, booked_minor=0)
    elif adjustments.requires_second_approver(
        session,
        row,
        resolution=decision.resolution,
        difference_minor=difference,
        officer_id=act.person_id,
        now=act.now,
    ):
        result = replace(result, state=PROPOSED, booked_minor=0)
    elif decision.resolution == PAYOUT_RETURNED:
        _reverse_payout(session, row, difference, now=act.now)
    else:
        _post_adjustment(session, row, decision.resolution, difference, now=act.now)
    if result.state == PROPOSED:
        # A proposal replaces the former one.
        row.proposed_resolution, row.proposal_note = decision.resolution, decision.note
        row.proposed_by, row.proposed_at = act.person_id, act.now
    else:
        row.resolution, row.note = decision.resolution, decision.note
        row.resolved_by, row.resolved_at = act.person_id, act.now
    record_audit_entry(
        session,
        act=act,
        action="reconciliation.resolve" if result.state == RESOLVED else "reconciliation.propose",
        target_type="reconciliation_exception",
        target_id=str(exception_id),
        before=before,
        after={
            "resolution": decision.resolution,
            "bookedMinor": result.booked_minor,
            "note": decision.note,
        },
    )
    return result


def _lock_exception(session: Session, run_id: UUID, exception_id: UUID) -> ReconciliationException:
    row = session.scalar(
        select(ReconciliationException)
        .where(ReconciliationException.id == exception_id, ReconciliationException.run_id == run_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFoundError("The reconciliation found no such thing.")
    if row.resolved_at is not None:
        raise DifferenceAlreadyResolvedError("It is resolved already.")
    later_runs = select(Reconciliation.id).where(
        Reconciliation.id > run_id, Reconciliation.status != "failed"
    )
    if session.scalar(later_runs.limit(1)) is not None:
        raise SupersededRunError("There is a later reconciliation: resolve what that one found.")
    return row


def _ensure_officer_not_involved(session: Session, row: ReconciliationException, officer_id: UUID) -> None:
    if row.order_id is not None:
        order = session.get_one(Order, row.order_id)
        ensure_no_conflict_of_interest(
            session, officer_id=officer_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
        )
    payout = session.get_one(PayoutTransferIntent, row.intent_id) if row.intent_id else None
    if payout is not None and payout.user_id == officer_id:
        raise ConflictOfInterestError("It is your own payout: another officer has to decide.")


def _ensure_resolution_allowed(action: str, resolution: str, difference: int) -> None:
    allowed = set(ALLOWED_RESOLUTIONS[action])
    if not difference:
        allowed -= _POSTED_RESOLUTIONS
    # Nor does it charge much that nobody heard of: that is the company's to bear, out of what it has there.
    if difference > 0 or -difference > adjustments.SINGLE_APPROVER_DAILY_LIMIT_MINOR:
        allowed.discard(GATEWAY_COST)
    if resolution not in allowed:
        alternatives = " or ".join(sorted(allowed)) or "nothing that can be done here"
        raise ResolutionNotAllowedError(f"It is not resolved by {resolution}, but by {alternatives}.")


def _enqueue_polling(session: Session, row: ReconciliationException, *, now: datetime) -> None:
    reference = row.reference or ""
    if row.intent_id is not None:
        transfer_events.enqueue_polling(session, reference=reference, now=now)
        return
    if row.refund_id is not None:
        topic, payload = refund_events.POLL_TOPIC, {"refundId": str(row.refund_id)}
    else:
        topic, payload = APPLY_TOPIC, {"reference": reference}
    outbox.enqueue(session, queue=queues.WEBHOOKS, topic=topic, payload=payload, due_at=now)


def _post_adjustment(
    session: Session, row: ReconciliationException, resolution: str, difference: int, *, now: datetime
) -> None:
    post_gateway_movement(
        session,
        kind=matching.ADJUSTMENT_KIND,
        source=f"{row.item} #{row.id}",
        description="Difference to the gateway, as finance explained it",
        amount_minor=difference,
        counter_account=accounts.OWN_FUNDS if resolution == OWN_FUNDS else accounts.GATEWAY_FEES,
        now=now,
    )


def _reverse_payout(
    session: Session, row: ReconciliationException, difference: int, *, now: datetime
) -> None:
    """Post that a payout came back, with the part of the gateway's fee that came back as well."""
    payout = apply_status.lock_payout(session, reference=row.reference or "")
    fee_minor = difference - payout.amount_minor
    if payout.status != states.SUCCESS or not 0 <= fee_minor <= payout.fee_minor:
        raise ResolutionNotAllowedError(
            f"The payout is {payout.status} by now, or it is not its amount that differs: see what the next"
            " reconciliation finds."
        )
    apply_status.reverse_success(session, payout, fee_minor=fee_minor, now=now)


def fetch_charge(gateway: PaymentGateway, reference: str) -> Charge | None:
    """Ask the gateway about a charge whose event never came.

    :raises ProviderUnavailableError: no usable answer
    """
    return gateway.fetch_charge(reference)


def apply_charge(
    session: Session, *, reference: str, charge: Charge | None, fee_bearer: str, now: datetime
) -> None:
    """Apply what the gateway told, as its event would have been."""
    lifecycle.apply_reported_charge(
        session, reference=reference, charge=charge, fee_bearer=fee_bearer, now=now
    )
