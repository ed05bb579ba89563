"""What finance does about what a reconciliation found: have the gateway asked, or book what it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import Row, Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError
from marketplace.ledger import accounts
from marketplace.payments.conflict_of_interest import ensure_no_conflict_of_interest
from marketplace.payments.intents import lifecycle
from marketplace.payments.refunds import refund_events
from marketplace.payouts import states
from marketplace.payouts.transfers import apply_status, transfer_events
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import PaymentGateway
from marketplace.reconciliation import adjustments, matching
from marketplace.reconciliation.adjustments import GATEWAY_COST, OWN_FUNDS, PAYOUT_RETURNED
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

_LOCK_EXCEPTION = Statement(
    text(
        """
        SELECT id, run_id, item, action, here_minor, there_minor, reference, order_id, refund_id, intent_id,
            proposed_resolution, proposed_by, proposed_at, resolved_at
        FROM reconciliation_exceptions WHERE id = :exception_id AND run_id = :run_id FOR NO KEY UPDATE
        """
    )
)
_SELECT_LATER_RUN = Statement(
    text("SELECT id FROM reconciliations WHERE id > :run_id AND status <> 'failed' LIMIT 1")
)
_SELECT_ORDER_PARTIES = Statement(text("SELECT buyer_id, vendor_id FROM orders WHERE id = :order_id"))
_SELECT_PAYEE = Statement(text("SELECT user_id FROM payout_transfer_intents WHERE id = :intent_id"))
# What is proposed takes the place of what was proposed before.
_RECORD_DECISION: Mapping[str, Statement[Row]] = {
    PROPOSED: Statement(
        text(
            """
            UPDATE reconciliation_exceptions SET proposed_resolution = :resolution, proposed_by = :officer_id,
                proposed_at = :now, proposal_note = :note WHERE id = :exception_id
            """
        )
    ),
    RESOLVED: Statement(
        text(
            """
            UPDATE reconciliation_exceptions SET resolution = :resolution, resolved_by = :officer_id,
                resolved_at = :now, note = :note WHERE id = :exception_id
            """
        )
    ),
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


def resolve_difference(
    session: Session,
    *,
    run_id: UUID,
    exception_id: UUID,
    decision: Decision,
    act: Act,
) -> dict[str, Any]:
    """Resolve what a reconciliation found, and audit it.

    ``ask`` has a worker ask the gateway, and take its word as that of an event. ``own_funds`` books the difference as
    the company's own money at the gateway, ``gateway_cost`` as what the gateway charged. ``came_back`` books a payout
    that the gateway does not have as reversed, so that its payee has the money again. It is for what the latest
    reconciliation found; the next one tells whether it agrees now. Payouts stay halted until two officers resume them.
    What the gateway holds less is booked out of the company's own funds only. Above a bound a difference, either way,
    is proposed by the first officer and booked by the same word of a second one.

    :param run_id: the reconciliation
    :param exception_id: what it found
    :param decision: the officer's
    :return: ``exceptionId``, ``state`` (resolved, or proposed), ``resolution``, and ``bookedMinor``: by how many kobo
        gateway_clearing moved
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
    difference = row["there_minor"] - row["here_minor"]
    _ensure_resolution_allowed(row["action"], decision.resolution, difference)
    posted_minor, state = 0, RESOLVED
    if decision.resolution == POLL_GATEWAY:
        _enqueue_polling(session, row, now=act.now)
    elif adjustments.requires_second_approver(
        session,
        row,
        resolution=decision.resolution,
        difference_minor=difference,
        officer_id=act.person_id,
        now=act.now,
    ):
        state = PROPOSED
    else:
        posted_minor = difference
        post = _reverse_payout if decision.resolution == PAYOUT_RETURNED else _post_adjustment
        post(session, row, decision.resolution, difference, now=act.now)
    _RECORD_DECISION[state].run(
        session,
        exception_id=exception_id,
        resolution=decision.resolution,
        note=decision.note,
        officer_id=act.person_id,
        now=act.now,
    )
    record_audit_entry(
        session,
        act=act,
        action="reconciliation.resolve" if state == RESOLVED else "reconciliation.propose",
        target_type="reconciliation_exception",
        target_id=str(exception_id),
        before=_audit_before(row),
        after={"resolution": decision.resolution, "bookedMinor": posted_minor, "note": decision.note},
    )
    result = {"state": state, "resolution": decision.resolution, "bookedMinor": posted_minor}
    return {"exceptionId": exception_id} | result


def _audit_before(row: dict[str, Any]) -> dict[str, Any]:
    proposed_by = row["proposed_by"]
    return {
        "item": row["item"],
        "differenceMinor": row["there_minor"] - row["here_minor"],
        "proposedBy": str(proposed_by) if proposed_by else None,
    }


def _lock_exception(session: Session, run_id: UUID, exception_id: UUID) -> dict[str, Any]:
    row = _LOCK_EXCEPTION.first(session, run_id=run_id, exception_id=exception_id)
    if row is None:
        raise NotFoundError("The reconciliation found no such thing.")
    if row["resolved_at"] is not None:
        raise DifferenceAlreadyResolvedError("It is resolved already.")
    if _SELECT_LATER_RUN.first(session, run_id=run_id) is not None:
        raise SupersededRunError("There is a later reconciliation: resolve what that one found.")
    return row


def _ensure_officer_not_involved(session: Session, row: dict[str, Any], officer_id: UUID) -> None:
    if row["order_id"] is not None:
        parties = _SELECT_ORDER_PARTIES.one(session, order_id=row["order_id"])
        ensure_no_conflict_of_interest(
            session, officer_id=officer_id, buyer_id=parties["buyer_id"], vendor_ids=[parties["vendor_id"]]
        )
    if row["intent_id"] is not None:
        payee_id = _SELECT_PAYEE.one(session, intent_id=row["intent_id"])["user_id"]
        if payee_id == officer_id:
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


def _enqueue_polling(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    if row["intent_id"] is not None:
        transfer_events.enqueue_polling(session, reference=row["reference"], now=now)
        return
    if row["refund_id"] is not None:
        topic, payload = refund_events.POLL_TOPIC, {"refundId": str(row["refund_id"])}
    else:
        topic, payload = APPLY_TOPIC, {"reference": row["reference"]}
    outbox.enqueue(session, queue=queues.WEBHOOKS, topic=topic, payload=payload, due_at=now)


def _post_adjustment(
    session: Session, row: dict[str, Any], resolution: str, difference: int, *, now: datetime
) -> None:
    post_gateway_movement(
        session,
        kind=matching.ADJUSTMENT_KIND,
        source=f"{row['item']} #{row['id']}",
        description="Difference to the gateway, as finance explained it",
        amount_minor=difference,
        counter_account=accounts.OWN_FUNDS if resolution == OWN_FUNDS else accounts.GATEWAY_FEES,
        now=now,
    )


def _reverse_payout(
    session: Session, row: dict[str, Any], _resolution: str, difference: int, *, now: datetime
) -> None:
    """Book that a payout came back, and with it as much of what the gateway had kept for it as is there again."""
    payout = apply_status.lock_payout(session, reference=row["reference"])
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
