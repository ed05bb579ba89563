"""Rulings of staff: refund the buyer, release to the vendor, or split, with the ledger entries in the same transaction.

A ruling of ``SECOND_OFFICER_MINOR`` or more needs two officers, who send the same ruling. A ruling that requires a
return of the goods moves nothing before the receipt.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import states, texts
from marketplace.disputes.cases import (
    ensure_not_party,
    find_open_dispute,
    lock_case,
    notify_parties,
    notify_party,
    record_event,
)
from marketplace.disputes.closing import Division, change_status, divide_escrow, end_case
from marketplace.disputes.models import Dispute, DisputeReturn
from marketplace.disputes.second_officer import SECOND_OFFICER_MINOR, confirm_decision
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.orders import states as order_states
from marketplace.orders.pricing import split_escrow
from marketplace.orders.transitions import SYSTEM, Actor, LockedOrder, lock_order
from marketplace.payments.guards import ensure_no_open_chargeback
from marketplace.payments.refunds.admin_refund import (
    EscrowDeficitError,
    RefundItem,
    RefundRequest,
    price_refund,
)
from marketplace.payouts.share_holds import hold_share

APPEAL_TIME = timedelta(hours=72)
RETURN_TIME = timedelta(days=5)
EXECUTED, AWAITING_SECOND_OFFICER, AWAITING_RETURN, PREVIEWED = RULING_STATES = (
    *("executed", "awaiting_second_officer", "awaiting_return", "previewed"),
)


@dataclass(frozen=True)
class Ruling:
    """A ruling.

    :ivar outcome: one of ``states.OUTCOMES``
    :ivar buyer_amount_minor: the refund of a split in kobo; none for the price of the items
    :ivar items: refunded units of a split
    :ivar return_required: whether the buyer must return the goods before anything moves
    """

    outcome: str
    rationale: str
    buyer_amount_minor: int | None = None
    items: Sequence[RefundItem] = ()
    return_required: bool = False

    @property
    def content(self) -> dict[str, Any]:
        """The ruling as JSON, to compare the bodies of two officers and to keep the ruling until a receipt."""
        content: dict[str, Any] = orjson.loads(orjson.dumps(asdict(self)))
        return content

    @classmethod
    def parse(cls, content: dict[str, Any]) -> "Ruling":
        """Parse the ``content`` of a ruling."""
        items = [RefundItem(UUID(item["product_id"]), item["quantity"]) for item in content["items"]]
        return cls(**content | {"items": items})


@dataclass(frozen=True)
class RulingEntry:
    """A ledger entry of a ruling. The amount is kobo."""

    account: str
    direction: Literal["debit", "credit"]
    amount_minor: int


@dataclass(frozen=True)
class RulingResult:
    """A ruling that was executed, proposed or previewed, or waits for a return. Amounts are kobo.

    :ivar state: one of ``RULING_STATES``
    :ivar vendor_minor: the released amount, of which the platform keeps its share
    """

    dispute_id: UUID
    state: str
    outcome: str
    buyer_minor: int
    vendor_minor: int
    entries: Sequence[RulingEntry] = ()


def preview_ruling(database: Database, *, dispute_id: UUID, ruling: Ruling, act: Act) -> RulingResult:
    """Execute a ruling in a transaction that is rolled back, and return its amounts and ledger entries.

    Errors are those of ``rule``, without those of a second officer.
    """
    with database.transaction() as session:
        dispute, order = _lock_for_ruling(session, dispute_id, ruling, act)
        result = execute_ruling(session, dispute, order, ruling=ruling, officer_ids=[], now=act.now)
        session.rollback()
    return replace(result, state=PREVIEWED)


def rule(session: Session, *, dispute_id: UUID, ruling: Ruling, act: Act) -> RulingResult:
    """Rule on a dispute. A large ruling waits for a second officer, and a return for the receipt of the goods.

    Rows are locked in this sequence: the order with its escrow, the dispute, charges, balances.

    :raises NotFoundError: the dispute does not exist
    :raises ConflictOfInterestError: the officer is a party
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    :raises ValidationError: the amount, the items or the return do not fit
    :raises ItemsNotRefundableError: the order does not have these units left to refund
    :raises EscrowDeficitError: the amount exceeds the escrow balance
    :raises ChargedBackError: the buyer's bank has not decided about the payment yet
    :raises SecondApproverRequiredError: the officer proposed this ruling
    :raises RulingDiffersError: another officer proposed a different ruling
    """
    dispute, order = _lock_for_ruling(session, dispute_id, ruling, act)
    actor, officer_ids = Actor("staff", act.person_id), [act.person_id]
    if order.escrow_balance_minor >= SECOND_OFFICER_MINOR:
        proposer_id = confirm_decision(session, dispute, content=ruling.content, act=act)
        if proposer_id is None:
            record_event(session, dispute, "ruling_proposed", actor, note=None, now=act.now)
            return _describe(session, dispute, order, ruling, AWAITING_SECOND_OFFICER)
        officer_ids.insert(0, proposer_id)
    before = {"status": dispute.status}
    if ruling.return_required:
        result = _request_return(session, dispute, order, ruling, officer_ids=officer_ids, act=act)
    else:
        result = execute_ruling(session, dispute, order, ruling=ruling, officer_ids=officer_ids, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="dispute.rule",
        target_type="dispute",
        target_id=str(dispute.id),
        before=before,
        after={"status": dispute.status, **ruling.content, "buyerMinor": result.buyer_minor},
    )
    return result


def _lock_for_ruling(
    session: Session, dispute_id: UUID, ruling: Ruling, act: Act
) -> tuple[Dispute, LockedOrder]:
    dispute, order = lock_case(session, dispute_id=dispute_id)
    ensure_not_party(dispute, act)
    states.DISPUTE.target(dispute.status, ruling.outcome)
    # Finance may have refunded the order, which resolves the dispute a moment later.
    order_states.ORDER.target(order.status, order_states.RULE_FOR_VENDOR)
    ensure_no_open_chargeback(session, order_id=order.id)
    if ruling.return_required and (ruling.outcome == states.RELEASE_VENDOR or order.shipped_at is None):
        raise ValidationError.of("returnRequired", texts.NOTHING_TO_RETURN)
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
    request = RefundRequest("gateway", ruling.rationale, ruling.buyer_amount_minor, ruling.items)
    buyer_minor = price_refund(session, order=order, refund_request=request)
    if buyer_minor >= held_minor:
        raise ValidationError.of("buyerAmountMinor", texts.SPLIT_WHOLE.format(limit=held_minor))
    return buyer_minor


def _describe(
    session: Session, dispute: Dispute, order: LockedOrder, ruling: Ruling, state: str
) -> RulingResult:
    """Describe a ruling that has moved nothing yet."""
    buyer_minor = _buyer_amount(session, order, ruling)
    return RulingResult(
        dispute.id, state, ruling.outcome, buyer_minor, order.escrow_balance_minor - buyer_minor
    )


def _request_return(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    ruling: Ruling,
    *,
    officer_ids: list[UUID],
    act: Act,
) -> RulingResult:
    """Keep a ruling until the receipt of the goods. A later ruling replaces an earlier one."""
    due_at = act.now + RETURN_TIME
    change_status(dispute, states.DISPUTE.target(dispute.status, states.REQUIRE_RETURN), act.now)
    session.merge(
        DisputeReturn(
            dispute_id=dispute.id,
            ruling=ruling.content,
            officer_ids=officer_ids,
            status=states.RETURN_REQUESTED,
            send_due_at=due_at,
            tracking_note=None,
            sent_at=None,
            received_at=None,
            created_at=act.now,
        )
    )
    session.flush()
    actor = Actor("staff", act.person_id)
    record_event(session, dispute, "return_requested", actor, note=ruling.outcome, now=act.now)
    result = _describe(session, dispute, order, ruling, AWAITING_RETURN)
    cause = f"return:{act.now.timestamp()}"
    values = {"buyer": format_naira(result.buyer_minor), "until": f"{due_at:%Y-%m-%d}"}
    for user_id, body in (
        (dispute.buyer_id, texts.RETURN_REQUESTED_BODY),
        (dispute.vendor_user_id, texts.RETURN_REQUESTED_BODY_FOR_VENDOR),
    ):
        notify_party(
            session,
            dispute,
            order,
            user_id=user_id,
            title=texts.RETURN_REQUESTED_TITLE,
            body=body,
            cause=cause,
            now=act.now,
            **values,
        )
    return result


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


def execute_ruling(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    *,
    ruling: Ruling,
    officer_ids: list[UUID],
    now: datetime,
) -> RulingResult:
    """Move the escrow of a locked case as ruled, resolve the dispute, and hold the vendor's share for an appeal.

    :param officer_ids: the officers of the ruling, the last one executes
    """
    held_minor = order.escrow_balance_minor
    buyer_minor = _buyer_amount(session, order, ruling)
    actor = Actor("staff", officer_ids[-1] if officer_ids else None)
    divide_escrow(
        session,
        dispute,
        order,
        division=Division(ruling.outcome, ruling.rationale, buyer_minor, ruling.items),
        actor=actor,
        now=now,
    )
    dispute.officer_ids = officer_ids
    share = split_escrow(order.price, commission_minor=order.commission_minor)
    share_minor = share.scaled_to(held_minor - buyer_minor).vendor_minor
    if share_minor:
        hold_share(
            session,
            order_id=order.id,
            vendor_id=order.vendor_id,
            amount_minor=share_minor,
            until=now + APPEAL_TIME,
            now=now,
        )
    record_event(session, dispute, "ruled", actor, note=ruling.outcome, now=now)
    notify_parties(
        session,
        dispute,
        order,
        title=texts.RULED_TITLE,
        body=texts.RULED_BODY[dispute.status],
        cause="ruled",
        now=now,
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
    end_case(session, dispute, trigger=states.REFUND_BUYER, now=now)
    dispute.rationale = texts.REFUNDED_BY_FINANCE
    dispute.buyer_minor, dispute.vendor_minor = order.refunded_minor, 0
    session.flush()
    record_event(session, dispute, "refunded", SYSTEM, note=None, now=now)
