"""Appeals against rulings: once within ``APPEAL_TIME``, decided by an officer who did not rule.

The escrow never moves again. A granted appeal of the buyer is a clawback from vendor and platform. A granted appeal of
the vendor is an expense of the platform. The vendor's share stays on hold until the decision.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import texts
from marketplace.disputes.cases import (
    ensure_not_party,
    lock_case,
    notify_parties,
    notify_party,
    party_role,
    record_event,
)
from marketplace.disputes.models import Dispute, DisputeAppeal
from marketplace.disputes.rulings import APPEAL_TIME
from marketplace.disputes.second_officer import SECOND_OFFICER_MINOR, confirm_decision, drop_proposal
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders.pricing import split_escrow
from marketplace.orders.transitions import Actor, LockedOrder
from marketplace.payments.guards import ensure_order_not_charged_back
from marketplace.payments.refunds.admin_refund import RefundRequest, claw_back
from marketplace.payouts.share_holds import end_hold, keep_hold_during_appeal

DECISION_TIME = timedelta(days=7)
PENDING, GRANTED, REJECTED = APPEAL_STATUSES = ("pending", "granted", "rejected")
DECISIONS = (GRANTED, REJECTED)
APPEAL_GRANTED: Final = "appeal_granted"


class NotAppealableError(ConflictError):
    """The dispute has no ruling that the caller can appeal now."""

    reason = "not-appealable"


class RulingAlreadyAppealedError(ConflictError):
    """The ruling was appealed before."""

    reason = "ruling-already-appealed"


class NoPendingAppealError(ConflictError):
    """The dispute has no appeal that waits for a decision."""

    reason = "no-pending-appeal"


@dataclass(frozen=True)
class AppealDecision:
    """A decision about an appeal.

    :ivar decision: one of ``DECISIONS``
    :ivar amount_minor: kobo that the appealing side receives in addition to the ruling; none for a rejection
    """

    decision: str
    rationale: str
    amount_minor: int | None = None


def appeal(session: Session, *, dispute_id: UUID, caller: Caller, reason: str, now: datetime) -> None:
    """Appeal a ruling as a party. The vendor's share stays on hold until the decision.

    :raises NotFoundError: the caller is no party
    :raises RulingAlreadyAppealedError: a party has appealed before
    :raises NotAppealableError: there is no ruling, the time is over, or the caller received everything
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    if session.get(DisputeAppeal, dispute.id) is not None:
        raise RulingAlreadyAppealedError(texts.ALREADY_APPEALED)
    if not dispute.officer_ids or dispute.resolved_at is None:
        raise NotAppealableError(texts.NO_RULING)
    if now > dispute.resolved_at + APPEAL_TIME:
        raise NotAppealableError(texts.APPEAL_TIME_OVER)
    if not _limit(dispute, order, role):
        raise NotAppealableError(texts.NOTHING_TO_APPEAL)
    session.add(
        DisputeAppeal(
            dispute_id=dispute.id,
            appealed_by=role,
            reason=reason,
            status=PENDING,
            decision_due_at=now + DECISION_TIME,
            created_at=now,
        )
    )
    session.flush()
    keep_hold_during_appeal(session, order_id=order.id)
    record_event(session, dispute, "appealed", Actor(role, caller.id), note=None, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=dispute.vendor_user_id if role == "buyer" else dispute.buyer_id,
        title=texts.APPEALED_TITLE,
        body=texts.APPEALED_BODY,
        cause="appealed",
        now=now,
    )


def decide_appeal(session: Session, *, dispute_id: UUID, decision: AppealDecision, act: Act) -> bool:
    """Decide a pending appeal. A large amount waits for a second officer.

    Rows are locked in this sequence: the order with its escrow, the dispute, charges, balances.

    :return: whether the decision was executed
    :raises NotFoundError: the dispute does not exist
    :raises ConflictOfInterestError: the officer is a party or made the ruling
    :raises NoPendingAppealError: no appeal waits for a decision
    :raises ValidationError: the amount does not fit the decision
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it
    :raises SecondApproverRequiredError: the officer proposed this decision
    :raises RulingDiffersError: another officer proposed a different decision
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    ensure_not_party(dispute, act)
    if act.person_id in dispute.officer_ids:
        raise ConflictOfInterestError(texts.RULED_BEFORE)
    pending = session.get(DisputeAppeal, dispute.id, populate_existing=True)
    if pending is None or pending.status != PENDING:
        raise NoPendingAppealError(texts.NO_PENDING_APPEAL)
    amount_minor = _check_amount(dispute, order, pending, decision)
    if amount_minor and pending.appealed_by == "buyer":
        ensure_order_not_charged_back(session, order_id=order.id)
    if amount_minor >= SECOND_OFFICER_MINOR:
        content = asdict(decision)
        if confirm_decision(session, dispute, content=content, act=act) is None:
            record_event(
                session,
                dispute,
                "appeal_decision_proposed",
                Actor("staff", act.person_id),
                note=None,
                now=act.now,
            )
            return False
    if amount_minor:
        _pay(
            session,
            dispute,
            order,
            pending,
            amount_minor=amount_minor,
            rationale=decision.rationale,
            act=act,
        )
    _close(session, dispute, order, pending, decision=decision, act=act)
    return True


def _limit(dispute: Dispute, order: LockedOrder, role: str) -> int:
    """Return the largest amount in kobo that a side can gain by an appeal.

    The buyer can gain the released amount that was not refunded later, the vendor the share of the refunded amount.
    """
    if role == "buyer":
        return order.net_released_minor
    share = split_escrow(order.price, commission_minor=order.commission_minor)
    return share.scaled_to(dispute.buyer_minor or 0).vendor_minor


def _check_amount(
    dispute: Dispute, order: LockedOrder, pending: DisputeAppeal, decision: AppealDecision
) -> int:
    if decision.decision == REJECTED:
        if decision.amount_minor is not None:
            raise ValidationError.of("amountMinor", texts.AMOUNT_OF_REJECTION)
        return 0
    if decision.amount_minor is None:
        raise ValidationError.of("amountMinor", texts.AMOUNT_OF_GRANT)
    limit = _limit(dispute, order, pending.appealed_by)
    if decision.amount_minor > limit:
        raise ValidationError.of("amountMinor", texts.APPEAL_AMOUNT_TOO_LARGE.format(limit=limit))
    return decision.amount_minor


def _pay(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    pending: DisputeAppeal,
    *,
    amount_minor: int,
    rationale: str,
    act: Act,
) -> None:
    if pending.appealed_by == "buyer":
        request = RefundRequest("gateway", rationale, amount_minor)
        claw_back(session, order_id=order.id, act=act, refund_request=request)
        return
    post_transaction(
        session,
        kind=APPEAL_GRANTED,
        source=f"dispute:{dispute.id}",
        description=texts.LEDGER_APPEAL_GRANTED.format(number=dispute.number),
        postings=[
            Posting(accounts.DISPUTE_EXPENSES, "debit", amount_minor, order.id),
            Posting(accounts.vendor_payable(order.vendor_id), "credit", amount_minor, order.id),
        ],
        now=act.now,
    )


def _close(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    pending: DisputeAppeal,
    *,
    decision: AppealDecision,
    act: Act,
) -> None:
    pending.status, pending.decided_at = decision.decision, act.now
    pending.rationale, pending.amount_minor = decision.rationale, decision.amount_minor
    dispute.revision, dispute.updated_at = dispute.revision + 1, act.now
    drop_proposal(session, dispute)
    session.flush()
    end_hold(session, order_id=order.id, now=act.now)
    actor = Actor("staff", act.person_id)
    record_event(session, dispute, f"appeal_{decision.decision}", actor, note=None, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="dispute.decide_appeal",
        target_type="dispute",
        target_id=str(dispute.id),
        before={"appeal": PENDING},
        after={"appeal": decision.decision, "amountMinor": decision.amount_minor},
    )
    notify_parties(
        session,
        dispute,
        order,
        title=texts.APPEAL_DECIDED_TITLE,
        body=texts.APPEAL_DECIDED_BODY[decision.decision, pending.appealed_by],
        cause="appeal-decided",
        now=act.now,
        amount=format_naira(decision.amount_minor or 0),
    )
