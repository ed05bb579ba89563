"""Resolve the differences that a reconciliation found: poll the gateway, or post the difference.

What is missing at the gateway is somebody else's money until the company pays for it, and what is too much may be
somebody's as well. Accepting it makes the ledger agree and resolves the alert. So own funds have to cover a missing
amount, and a larger amount takes a second officer in either direction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    SecondApproverRequiredError,
    found,
)
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import post_gateway_movement
from marketplace.orders.models import Order
from marketplace.payments.guards import ensure_no_conflict_of_interest
from marketplace.payments.refunds import create
from marketplace.payouts import states
from marketplace.payouts.models import PayoutTransferIntent
from marketplace.payouts.transfers import apply_status
from marketplace.reconciliation.matching import ADJUSTMENT_KIND
from marketplace.reconciliation.models import Reconciliation, ReconciliationException

APPLY_TOPIC = "reconciliation.apply-charge"

POLL_GATEWAY = "ask"
OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED = "own_funds", "gateway_cost", "came_back"
RESOLUTIONS = (POLL_GATEWAY, OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED)
PROPOSED, RESOLVED = "proposed", "resolved"
STATES = (PROPOSED, RESOLVED)
# What one officer accepts alone within a day, and the most that is called a charge of the gateway's; in kobo.
SINGLE_APPROVER_DAILY_LIMIT_MINOR = 100_000
# A proposal that nobody confirmed for so long is no more.
_PROPOSAL_VALIDITY = timedelta(days=7)
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


class InsufficientOwnFundsError(ConflictError):
    """The company's own funds at the gateway do not cover the amount."""

    reason = "insufficient-own-funds"


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
    resolution: str,
    note: str,
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
    :param resolution: one of ``RESOLUTIONS``
    :param note: the officer's reason
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
    _ensure_resolution_allowed(row.action, resolution, difference)
    before = {
        "item": row.item,
        "differenceMinor": difference,
        "proposedBy": str(row.proposed_by) if row.proposed_by else None,
    }
    state = RESOLVED
    if resolution == POLL_GATEWAY:
        _enqueue_polling(session, row, now=act.now)
    elif _requires_second_approver(
        session,
        row,
        resolution=resolution,
        difference_minor=difference,
        officer_id=act.person_id,
        now=act.now,
    ):
        state = PROPOSED
    elif resolution == PAYOUT_RETURNED:
        _reverse_payout(session, row, difference, now=act.now)
    else:
        post_gateway_movement(
            session,
            kind=ADJUSTMENT_KIND,
            source=f"{row.item} #{row.id}",
            description="Difference to the gateway, as finance explained it",
            amount_minor=difference,
            counter_account=accounts.OWN_FUNDS if resolution == OWN_FUNDS else accounts.GATEWAY_FEES,
            now=act.now,
        )
    booked_minor = 0 if state == PROPOSED or resolution == POLL_GATEWAY else difference
    if state == PROPOSED:
        # A proposal replaces the former one.
        row.proposed_resolution, row.proposal_note = resolution, note
        row.proposed_by, row.proposed_at = act.person_id, act.now
    else:
        row.resolution, row.note = resolution, note
        row.resolved_by, row.resolved_at = act.person_id, act.now
    record_audit_entry(
        session,
        act=act,
        action="reconciliation.resolve" if state == RESOLVED else "reconciliation.propose",
        target_type="reconciliation_exception",
        target_id=str(exception_id),
        before=before,
        after={
            "resolution": resolution,
            "bookedMinor": booked_minor,
            "note": note,
        },
    )
    return Resolution(exception_id, state, resolution, booked_minor)


def _lock_exception(session: Session, run_id: UUID, exception_id: UUID) -> ReconciliationException:
    row = found(
        session.scalar(
            select(ReconciliationException)
            .where(ReconciliationException.id == exception_id, ReconciliationException.run_id == run_id)
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        ),
        "The reconciliation found no such thing.",
    )
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
    if row.intent_id and session.get_one(PayoutTransferIntent, row.intent_id).user_id == officer_id:
        raise ConflictOfInterestError("It is your own payout: another officer has to decide.")


def _ensure_resolution_allowed(action: str, resolution: str, difference: int) -> None:
    allowed = set(ALLOWED_RESOLUTIONS[action])
    if not difference:
        allowed -= _POSTED_RESOLUTIONS
    # Nor does it charge much that nobody heard of: that is the company's to bear, out of what it has there.
    if difference > 0 or -difference > SINGLE_APPROVER_DAILY_LIMIT_MINOR:
        allowed.discard(GATEWAY_COST)
    if resolution not in allowed:
        alternatives = " or ".join(sorted(allowed)) or "nothing that can be done here"
        raise ResolutionNotAllowedError(f"It is not resolved by {resolution}, but by {alternatives}.")


def _enqueue_polling(session: Session, row: ReconciliationException, *, now: datetime) -> None:
    reference = row.reference or ""
    if row.intent_id is not None:
        apply_status.enqueue_polling(session, reference=reference, now=now)
        return
    if row.refund_id is not None:
        topic, payload = create.POLL_TOPIC, {"refundId": str(row.refund_id)}
    else:
        topic, payload = APPLY_TOPIC, {"reference": reference}
    outbox.enqueue(session, queue=queues.WEBHOOKS, topic=topic, payload=payload, due_at=now)


# It has no balance of its own that a posting would lock: two at once would each find that it, or the day, suffices.
_LOCK_OWN_FUNDS = Statement(text("SELECT id FROM ledger_accounts WHERE id = :account_id FOR NO KEY UPDATE"))


_SELECT_OWN_FUNDS = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor,
            least((SELECT difference_minor FROM gateway_movements WHERE id = 0), 0) AS opening_minor
        FROM ledger_entries WHERE account_id = :account_id
        """
    )
)


_SUM_SINGLE_APPROVALS = Statement(
    text(
        """
        SELECT coalesce(sum(abs(here_minor - there_minor)), 0)::bigint AS minor FROM reconciliation_exceptions
        WHERE resolved_by = :officer_id AND resolved_at > :since
            AND resolution IN ('own_funds', 'gateway_cost', 'came_back')
            AND (proposed_by IS NULL OR proposed_by = resolved_by)
        """
    )
)


def _requires_second_approver(
    session: Session,
    row: ReconciliationException,
    *,
    resolution: str,
    difference_minor: int,
    officer_id: UUID,
    now: datetime,
) -> bool:
    """Tell whether a difference is accepted only once another officer confirms it.

    No other one is accepted until the transaction ends.

    :param row: the exception, locked, with what is proposed
    :param resolution: as what it is to be booked
    :param difference_minor: kobo that the gateway holds more than the books say, or (below zero) less
    :raises InsufficientOwnFundsError: own funds would fall below zero, or below their opening if that is less
    :raises SecondApproverRequiredError: the officer has proposed just that
    """
    _LOCK_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
    if resolution == OWN_FUNDS and difference_minor < 0:
        funds = _SELECT_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
        # LEAST leaves none out: without an opening it is 0.
        if funds["minor"] + difference_minor < funds["opening_minor"]:
            raise InsufficientOwnFundsError(
                f"The company's own money at the gateway ({format_naira(funds['minor'])}) does not cover it. To bear it"
                " is for the company to decide: it pays the money in at the gateway, and the next reconciliation books"
                " that."
            )
    accepted_alone_minor = _SUM_SINGLE_APPROVALS.scalar(
        session, officer_id=officer_id, since=now - timedelta(days=1)
    )
    if accepted_alone_minor + abs(difference_minor) <= SINGLE_APPROVER_DAILY_LIMIT_MINOR:
        return False
    is_proposed = row.proposed_at is not None and row.proposed_at > now - _PROPOSAL_VALIDITY
    if row.proposed_resolution != resolution or not is_proposed:
        return True
    if row.proposed_by == officer_id:
        raise SecondApproverRequiredError("You have proposed this: another officer has to confirm it.")
    return False


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


# Of the latest that was found of the same item, if it differs by the same still.
_CARRY_OVER_PROPOSALS = Statement(
    text(
        """
        UPDATE reconciliation_exceptions x SET proposed_resolution = p.proposed_resolution,
            proposed_by = p.proposed_by, proposed_at = p.proposed_at, proposal_note = p.proposal_note
        FROM (SELECT DISTINCT ON (item) * FROM reconciliation_exceptions
            WHERE proposed_at > :since AND run_id <> :run_id ORDER BY item, id DESC) p
        WHERE x.run_id = :run_id AND x.item = p.item AND p.resolved_at IS NULL
            AND x.here_minor = p.here_minor AND x.there_minor = p.there_minor
        """
    )
)


def carry_over_proposals(session: Session, *, run_id: UUID, now: datetime) -> None:
    """Take over into a run what is proposed for the same differences of the runs before."""
    _CARRY_OVER_PROPOSALS.run(session, run_id=run_id, since=now - _PROPOSAL_VALIDITY)
