"""Resolve the differences that a reconciliation found: poll the gateway, or post the difference.

Accepting a difference makes the ledger agree with the gateway. The next reconciliation then resolves the alert.

A missing amount is customers' money until the company replaces the amount, so the company's own funds must cover it. A
surplus may be customers' money too. In either direction, a difference above the limit needs a second officer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
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
from marketplace.reconciliation import texts
from marketplace.reconciliation.matching import ADJUSTMENT_KIND
from marketplace.reconciliation.models import Reconciliation, ReconciliationException

APPLY_TOPIC = "reconciliation.apply-charge"

POLL_GATEWAY = "ask"
OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED = "own_funds", "gateway_cost", "came_back"
RESOLUTIONS = (POLL_GATEWAY, OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED)
PROPOSED, RESOLVED = "proposed", "resolved"
STATES = (PROPOSED, RESOLVED)
# In kobo: an officer's total for accepting differences alone within a day, and the maximum of a gateway cost.
SINGLE_APPROVER_DAILY_LIMIT_MINOR = 100_000
# An unconfirmed proposal expires after this time.
_PROPOSAL_VALIDITY = timedelta(days=7)
_POSTED_RESOLUTIONS = frozenset({OWN_FUNDS, GATEWAY_COST})
# Money in transit to a buyer, a payee or an order is never posted as the company's own.
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
    """Resolve a difference of the latest reconciliation.

    - ``ask``: a worker polls the gateway and applies the reported status like an event.
    - ``own_funds``: post the difference to the company's own funds at the gateway.
    - ``gateway_cost``: post the difference to gateway fees.
    - ``came_back``: reverse a payout that the gateway does not have, and return the amount to the payee's balance.

    A shortfall above the gateway cost limit can only be posted to own funds. Above the single-approver limit, the first
    officer proposes a resolution and a second officer confirms the same resolution. The next reconciliation compares
    both sides again. Payouts stay halted until two officers resume payouts.

    :param resolution: one of ``RESOLUTIONS``
    :param note: the officer's reason
    :raises NotFoundError: the run has no such difference
    :raises DifferenceAlreadyResolvedError: the difference is already resolved
    :raises SupersededRunError: a later run exists
    :raises ResolutionNotAllowedError: the difference does not allow this resolution
    :raises InsufficientOwnFundsError: own funds do not cover the difference
    :raises ConflictOfInterestError: the officer is a party to the order or payout
    :raises SecondApproverRequiredError: the officer made the proposal
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
            description="Accepted difference between gateway and ledger",
            amount_minor=difference,
            counter_account=accounts.OWN_FUNDS if resolution == OWN_FUNDS else accounts.GATEWAY_FEES,
            now=act.now,
        )
    booked_minor = 0 if state == PROPOSED or resolution == POLL_GATEWAY else difference
    if state == PROPOSED:
        # A new proposal replaces the previous proposal.
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
        "Difference not found in this reconciliation.",
    )
    if row.resolved_at is not None:
        raise DifferenceAlreadyResolvedError("The difference is already resolved.")
    later_runs = select(Reconciliation.id).where(
        Reconciliation.id > run_id, Reconciliation.status != "failed"
    )
    if session.scalar(later_runs.limit(1)) is not None:
        raise SupersededRunError(texts.RUN_SUPERSEDED)
    return row


def _ensure_officer_not_involved(session: Session, row: ReconciliationException, officer_id: UUID) -> None:
    if row.order_id is not None:
        order = session.get_one(Order, row.order_id)
        ensure_no_conflict_of_interest(
            session, officer_id=officer_id, buyer_id=order.buyer_id, vendor_ids=[order.vendor_id]
        )
    if row.intent_id and session.get_one(PayoutTransferIntent, row.intent_id).user_id == officer_id:
        raise ConflictOfInterestError(texts.OWN_PAYOUT)


def _ensure_resolution_allowed(action: str, resolution: str, difference: int) -> None:
    allowed = set(ALLOWED_RESOLUTIONS[action])
    if not difference:
        allowed -= _POSTED_RESOLUTIONS
    # The gateway never charges large costs without notice. The company bears such a shortfall from own funds.
    if difference > 0 or -difference > SINGLE_APPROVER_DAILY_LIMIT_MINOR:
        allowed.discard(GATEWAY_COST)
    if resolution not in allowed:
        detail = texts.RESOLUTION_NOT_ALLOWED if allowed else texts.NO_RESOLUTION_ALLOWED
        raise ResolutionNotAllowedError(
            detail.format(resolution=resolution, allowed=", ".join(sorted(allowed)))
        )


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


# Postings do not lock this account, which has no stored balance. Without this lock, two resolutions at once could
# each pass the checks of own funds and of the daily limit.
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
    """Return whether accepting a difference needs another officer's confirmation.

    The lock on own funds delays all other resolutions until the transaction ends.

    :param row: the exception; the caller must hold the row lock
    :param difference_minor: kobo at the gateway beyond the ledger; negative for a shortfall
    :raises InsufficientOwnFundsError: own funds would fall below zero, or below a negative opening balance
    :raises SecondApproverRequiredError: the officer proposed the same resolution
    """
    _LOCK_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
    if resolution == OWN_FUNDS and difference_minor < 0:
        funds = _SELECT_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
        # LEAST ignores NULL: without an opening movement the result is 0.
        if funds["minor"] + difference_minor < funds["opening_minor"]:
            raise InsufficientOwnFundsError(
                texts.INSUFFICIENT_OWN_FUNDS.format(balance=format_naira(funds["minor"]))
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
        raise SecondApproverRequiredError(texts.SECOND_OFFICER_REQUIRED)
    return False


def _reverse_payout(
    session: Session, row: ReconciliationException, difference: int, *, now: datetime
) -> None:
    """Reverse a successful payout, with the part of the gateway's fee that was returned."""
    payout = apply_status.lock_payout(session, reference=row.reference or "")
    fee_minor = difference - payout.amount_minor
    if payout.status != states.SUCCESS:
        raise ResolutionNotAllowedError(texts.PAYOUT_NOT_SUCCESSFUL.format(status=payout.status))
    if not 0 <= fee_minor <= payout.fee_minor:
        raise ResolutionNotAllowedError(texts.PAYOUT_AMOUNT_DIFFERS)
    apply_status.reverse_success(session, payout, fee_minor=fee_minor, now=now)


# Copy from the latest exception of the same item with unchanged amounts.
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
    """Copy valid proposals of earlier runs to the same differences of a new run."""
    _CARRY_OVER_PROPOSALS.run(session, run_id=run_id, since=now - _PROPOSAL_VALIDITY)
