"""Rulings of staff: refund the buyer, release to the vendor, or split, with the ledger entries in the same transaction.

A ruling of ``SECOND_OFFICER_MINOR`` or more needs two officers, who send the same ruling.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import orjson
from sqlalchemy import delete, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import states, texts
from marketplace.disputes.cases import (
    change_status,
    ensure_not_party,
    find_open_dispute,
    lock_case,
    notify_party,
    record_event,
)
from marketplace.disputes.models import Dispute, DisputeRulingProposal
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import (
    ConflictError,
    InvalidParam,
    SecondApproverRequiredError,
    ValidationError,
)
from marketplace.kernel.money import format_naira
from marketplace.orders import operations as orders, states as order_states
from marketplace.orders.transitions import SYSTEM, Actor, LockedOrder, lock_order
from marketplace.payments.guards import ensure_order_not_charged_back
from marketplace.payments.refunds.admin_refund import (
    EscrowDeficitError,
    RefundItem,
    RefundRequest,
    price_refund,
    process_refund,
)

SECOND_OFFICER_MINOR = 5_000_000
PROPOSAL_LIFETIME = timedelta(hours=24)
EXECUTED, AWAITING_SECOND_OFFICER, PREVIEWED = RULING_STATES = (
    *("executed", "awaiting_second_officer", "previewed"),
)


class RulingDiffersError(ConflictError):
    """Another officer proposed a different ruling."""

    reason = "ruling-differs"


@dataclass(frozen=True)
class Ruling:
    """A ruling.

    :ivar outcome: one of ``states.OUTCOMES``
    :ivar buyer_amount_minor: the refund of a split in kobo; none for the price of the items
    :ivar items: refunded units of a split
    """

    outcome: str
    rationale: str
    buyer_amount_minor: int | None = None
    items: Sequence[RefundItem] = ()

    @property
    def content(self) -> dict[str, Any]:
        """The ruling as JSON, to compare the bodies of two officers."""
        content: dict[str, Any] = orjson.loads(orjson.dumps(asdict(self)))
        return content


@dataclass(frozen=True)
class RulingEntry:
    """A ledger entry of a ruling. The amount is kobo."""

    account: str
    direction: Literal["debit", "credit"]
    amount_minor: int


@dataclass(frozen=True)
class RulingResult:
    """A ruling that was executed, proposed or previewed. Amounts are kobo.

    :ivar state: one of ``RULING_STATES``
    :ivar vendor_minor: the released amount, of which the platform keeps its share
    """

    dispute_id: UUID
    state: str
    outcome: str
    buyer_minor: int
    vendor_minor: int
    entries: Sequence[RulingEntry]


def preview_ruling(database: Database, *, dispute_id: UUID, ruling: Ruling, act: Act) -> RulingResult:
    """Execute a ruling in a transaction that is rolled back, and return its amounts and ledger entries.

    Errors are those of ``rule``, without those of a second officer.
    """
    with database.transaction() as session:
        dispute, order = _lock_for_ruling(session, dispute_id, ruling, act)
        result = _execute(session, dispute, order, ruling, act)
        session.rollback()
    return replace(result, state=PREVIEWED)


def rule(session: Session, *, dispute_id: UUID, ruling: Ruling, act: Act) -> RulingResult:
    """Rule on a dispute. A large ruling waits for a second officer.

    Rows are locked in this sequence: the order with its escrow, the dispute, charges, balances.

    :raises NotFoundError: the dispute does not exist
    :raises ConflictOfInterestError: the officer is a party
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    :raises ValidationError: the amount or the items do not fit
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it
    :raises SecondApproverRequiredError: the officer proposed this ruling
    :raises RulingDiffersError: another officer proposed a different ruling
    """
    dispute, order = _lock_for_ruling(session, dispute_id, ruling, act)
    if order.escrow_balance_minor >= SECOND_OFFICER_MINOR and not _is_confirmed(
        session, dispute, ruling, act
    ):
        buyer_minor = _buyer_amount(session, order, ruling)
        record_event(
            session, dispute, "ruling_proposed", Actor("staff", act.person_id), note=None, now=act.now
        )
        return RulingResult(
            dispute.id,
            AWAITING_SECOND_OFFICER,
            ruling.outcome,
            buyer_minor,
            order.escrow_balance_minor - buyer_minor,
            (),
        )
    return _execute(session, dispute, order, ruling, act)


def _lock_for_ruling(
    session: Session, dispute_id: UUID, ruling: Ruling, act: Act
) -> tuple[Dispute, LockedOrder]:
    dispute, order = lock_case(session, dispute_id=dispute_id)
    ensure_not_party(dispute, act)
    states.DISPUTE.target(dispute.status, ruling.outcome)
    # Finance may have refunded the order, which resolves the dispute a moment later.
    order_states.ORDER.target(order.status, order_states.RULE_FOR_VENDOR)
    ensure_order_not_charged_back(session, order_id=order.id)
    _buyer_amount(session, order, ruling)
    return dispute, order


def _buyer_amount(session: Session, order: LockedOrder, ruling: Ruling) -> int:
    """Return the refund of a ruling in kobo.

    :raises ValidationError: the amount or the items do not fit the outcome
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    """
    held_minor = order.escrow_balance_minor
    if ruling.outcome != states.SPLIT:
        if ruling.buyer_amount_minor is not None or ruling.items:
            name = "items" if ruling.items else "buyerAmountMinor"
            raise ValidationError.of(name, texts.AMOUNT_NOT_ALLOWED)
        return held_minor if ruling.outcome == states.REFUND_BUYER else 0
    if ruling.buyer_amount_minor is None and not ruling.items:
        raise ValidationError.of("buyerAmountMinor", texts.SPLIT_AMOUNT_MISSING)
    if ruling.buyer_amount_minor is not None and ruling.buyer_amount_minor > held_minor:
        # The refund's own error names a field of another body.
        limit = texts.CLAIM_TOO_LARGE.format(limit=held_minor)
        raise EscrowDeficitError(limit, invalid_params=[InvalidParam("buyerAmountMinor", limit)])
    buyer_minor = price_refund(session, order=order, refund_request=_refund_request(ruling))
    if buyer_minor >= held_minor:
        raise ValidationError.of("buyerAmountMinor", texts.SPLIT_WHOLE.format(limit=held_minor))
    return buyer_minor


def _refund_request(ruling: Ruling) -> RefundRequest:
    return RefundRequest(
        destination="gateway",
        reason=ruling.rationale,
        amount_minor=ruling.buyer_amount_minor,
        items=ruling.items,
    )


def _is_confirmed(session: Session, dispute: Dispute, ruling: Ruling, act: Act) -> bool:
    """Return whether another officer proposed the same ruling, or store the first proposal."""
    proposal = session.get(DisputeRulingProposal, dispute.id, with_for_update=True, populate_existing=True)
    if proposal is not None and proposal.expires_at > act.now:
        if proposal.officer_id == act.person_id:
            raise SecondApproverRequiredError(texts.SAME_OFFICER)
        if proposal.content != ruling.content:
            raise RulingDiffersError(
                texts.OTHER_RULING.format(until=f"{proposal.expires_at:%Y-%m-%d %H:%M} UTC")
            )
        return True
    session.execute(delete(DisputeRulingProposal).where(DisputeRulingProposal.dispute_id == dispute.id))
    session.add(
        DisputeRulingProposal(
            dispute_id=dispute.id,
            officer_id=act.person_id,
            content=ruling.content,
            proposed_at=act.now,
            expires_at=act.now + PROPOSAL_LIFETIME,
        )
    )
    session.flush()
    return False


_SELECT_ENTRIES = Statement(
    text(
        """
        SELECT a.kind || coalesce(':' || a.owner_id, '') AS account, e.direction, e.amount_minor
        FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
            JOIN ledger_accounts a ON a.id = e.account_id
        WHERE e.order_id = :order_id AND t.posted_in = (pg_current_xact_id()::text)::bigint ORDER BY e.id
        """
    ),
    row=RulingEntry,
)


def _execute(
    session: Session, dispute: Dispute, order: LockedOrder, ruling: Ruling, act: Act
) -> RulingResult:
    """Move the escrow of a locked case, and resolve the dispute."""
    held_minor = order.escrow_balance_minor
    buyer_minor = _buyer_amount(session, order, ruling)
    if buyer_minor:
        process_refund(session, order_id=order.id, act=act, refund_request=_refund_request(ruling))
    if buyer_minor < held_minor:
        orders.release_by_ruling(
            session,
            order=lock_order(session, order_id=order.id) if buyer_minor else order,
            actor=Actor("staff", act.person_id),
            note=ruling.rationale,
            now=act.now,
        )
    before = {"status": dispute.status}
    change_status(dispute, states.DISPUTE.target(dispute.status, ruling.outcome), act.now)
    dispute.resolved_at, dispute.rationale = act.now, ruling.rationale
    dispute.buyer_minor, dispute.vendor_minor = buyer_minor, held_minor - buyer_minor
    session.execute(delete(DisputeRulingProposal).where(DisputeRulingProposal.dispute_id == dispute.id))
    session.flush()
    record_event(session, dispute, "ruled", Actor("staff", act.person_id), note=ruling.outcome, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="dispute.rule",
        target_type="dispute",
        target_id=str(dispute.id),
        before=before,
        after={"status": dispute.status, **ruling.content, "buyerMinor": buyer_minor},
    )
    for user_id in (dispute.buyer_id, dispute.vendor_user_id):
        notify_party(
            session,
            dispute,
            order,
            user_id=user_id,
            title=texts.RULED_TITLE,
            body=texts.RULED_BODY[dispute.status],
            cause="ruled",
            now=act.now,
            buyer=format_naira(buyer_minor),
        )
    entries = _SELECT_ENTRIES.all(session, order_id=order.id)
    return RulingResult(dispute.id, EXECUTED, ruling.outcome, buyer_minor, held_minor - buyer_minor, entries)


def resolve_refunded(session: Session, *, order_id: UUID, now: datetime) -> None:
    """Resolve the open dispute of an order that finance refunded in full. A ruling has resolved its dispute before."""
    order = lock_order(session, order_id=order_id)
    dispute = find_open_dispute(session, order_id=order_id)
    if dispute is None or order.status != order_states.REFUNDED:
        return
    session.refresh(dispute, with_for_update=True)
    change_status(dispute, states.DISPUTE.target(dispute.status, states.REFUND_BUYER), now)
    dispute.resolved_at, dispute.rationale = now, texts.REFUNDED_BY_FINANCE
    dispute.buyer_minor, dispute.vendor_minor = order.refunded_minor, 0
    session.execute(delete(DisputeRulingProposal).where(DisputeRulingProposal.dispute_id == dispute.id))
    session.flush()
    record_event(session, dispute, "refunded", SYSTEM, note=None, now=now)
