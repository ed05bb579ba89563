"""Detail of a payout batch for the approving officers: all payments with risk flags, the riskiest first."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.payouts import states, texts
from marketplace.payouts.accounting import Reservation
from marketplace.payouts.batches.queries import FILTERS, UNDISBURSED, BatchView, show_batch
from marketplace.payouts.batches.staging import PAYEES_LIMIT
from marketplace.payouts.models import PayoutAccount
from marketplace.payouts.payees.holds import Hold, find_payout_holds
from marketplace.payouts.payees.name_matching import is_plausible_account_name
from marketplace.platform.halts import are_payouts_halted

ANY_RISK = "any"
_CHANGES_LIMIT = 100
# Bank accounts younger than this are flagged as changed.
_NEW_ACCOUNT_PERIOD = timedelta(days=30)
# An amount is unusual if it exceeds this multiple of the average of the latest successful payouts.
_HISTORY_LENGTH = 12
_UNUSUAL_AMOUNT_FACTOR = 3
_LOST_DISPUTES_PERIOD = timedelta(days=90)
_MANY_LOST_DISPUTES = 2

# In the order of importance for officers.
RISK_FLAGS: dict[str, str] = {
    "on_hold": texts.RISK_ON_HOLD,
    "account_changed_since_staging": texts.RISK_ACCOUNT_CHANGED_SINCE_STAGING,
    "account_changed": texts.RISK_ACCOUNT_CHANGED,
    "name_differs": texts.RISK_NAME_DIFFERS,
    "first_payout": texts.RISK_FIRST_PAYOUT,
    "amount_unusual": texts.RISK_AMOUNT_UNUSUAL,
    "under_dispute": texts.RISK_UNDER_DISPUTE,
    "lost_disputes": texts.RISK_LOST_DISPUTES,
    "not_active": texts.RISK_NOT_ACTIVE,
    "owes_money": texts.RISK_OWES_MONEY,
    "failed_before": texts.RISK_FAILED_BEFORE,
}


@dataclass(frozen=True)
class PaymentFacts(Reservation):
    """A payment of a batch with payee, bank account and the payee's payout history. Amounts are in kobo."""

    asked_for: bool
    failure_reason: str | None
    stalled_at: datetime | None
    created_at: datetime
    updated_at: datetime
    is_unsent: bool
    payee_name: str | None
    store_name: str | None
    store_slug: str | None
    is_payee_active: bool
    account_id: UUID
    account_name: str
    account_since: datetime
    staged_account_id: UUID
    is_staged_account: bool
    successful_payouts: int
    average_minor: int | None
    largest_minor: int | None
    last_paid_at: datetime | None
    last_failed: bool
    disputes: int
    lost_disputes: int
    owes_minor: int

    @property
    def payee_view(self) -> "PaymentFacts":
        """The payee's columns of this row, for the nested view."""
        return self


@dataclass(frozen=True)
class BatchPayment(PaymentFacts):
    """A payment of a batch with holds and risk flags.

    ``account`` is the bank account that the payment goes or went to. ``staged_account`` is the account at the staging,
    if different. Both are loaded only for payments on the requested page.
    """

    holds: tuple[Hold, ...]
    risks: list[str]
    account: PayoutAccount | None = None
    staged_account: PayoutAccount | None = None

    @property
    def source(self) -> str:
        """The balance that the payment comes from."""
        return "wallet" if self.vendor_id is None else "vendor"

    @property
    def history(self) -> PaymentFacts:
        """The columns of this row about earlier payouts, for the nested view."""
        return self

    @property
    def change(self) -> str | None:
        """The change of the payment since the staging."""
        if self.status == states.CANCELLED:
            return "called_off"
        return None if self.is_staged_account else "account_changed"

    @property
    def changed_at(self) -> datetime:
        """The time of the change."""
        return self.updated_at if self.status == states.CANCELLED else self.account_since

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """The sort key: most risk flags first, then the largest amount."""
        return -len(self.risks), -self.amount_minor, str(self.id)


@dataclass(frozen=True)
class PaymentsTotal:
    """The number of payments with a status or a risk, and their sum in kobo."""

    name: str
    payments: int
    amount_minor: int

    @property
    def meaning(self) -> str | None:
        """The description of the risk flag; none for a status."""
        return RISK_FLAGS.get(self.name)


@dataclass(frozen=True)
class BatchDetail(BatchView):
    """A batch with totals and changes of the payments, and a page of payments."""

    halted: bool
    statuses: list[PaymentsTotal]
    risks: list[PaymentsTotal]
    changes: list[BatchPayment]
    intents: list[BatchPayment]


# A single pass over the batch; an index finds each payee's history. Sent payments went to the approved account, which
# may differ from the payee's current account.
_SELECT_PAYMENTS = Statement(
    text(
        """
        WITH disputed AS (
            SELECT vendor_id, count(*) AS disputes FROM (
                SELECT o.id, o.vendor_id FROM orders o WHERE o.status = 'disputed'
                UNION SELECT o.id, o.vendor_id FROM charge_disputes d
                    JOIN payment_allocations l ON l.intent_id = d.intent_id JOIN orders o ON o.id = l.order_id
                WHERE d.status = 'open'
            ) found GROUP BY vendor_id
        ), lost AS (
            SELECT o.vendor_id, count(*) AS disputes FROM orders o JOIN escrows s ON s.order_id = o.id
            WHERE o.disputed_at > :lost_since AND s.refunded_minor + s.clawed_back_minor > 0 GROUP BY o.vendor_id
        )
        SELECT i.id, i.user_id, i.vendor_id, i.amount_minor, i.status, i.asked_for, i.failure_reason, i.stalled_at,
            i.created_at, i.updated_at, unsent.is_unsent,
            p.name AS payee_name, v.display_name AS store_name, v.slug AS store_slug,
            p.account_status = 'active' AND coalesce(v.status, 'active') = 'active' AS is_payee_active,
            coalesce(a.id, s.id) AS account_id, coalesce(a.account_name, s.account_name) AS account_name,
            coalesce(a.created_at, s.created_at) AS account_since, s.id AS staged_account_id,
            NOT unsent.is_unsent OR a.id IS NOT DISTINCT FROM s.id AS is_staged_account,
            coalesce(h.arrived, 0) AS successful_payouts, h.average_minor, h.largest_minor, h.last_paid_at,
            coalesce(l.failed, false) AS last_failed, coalesce(disputed.disputes, 0) AS disputes,
            coalesce(lost.disputes, 0) AS lost_disputes,
            coalesce(debt.balance_minor, 0) AS owes_minor
        FROM payout_transfer_intents i
            JOIN profiles p ON p.id = i.user_id
            JOIN payout_accounts s ON s.id = i.account_id
            LEFT JOIN payout_transfers t ON t.intent_id = i.id
            CROSS JOIN LATERAL (SELECT i.status = 'pending' AND t.sent_at IS NULL AS is_unsent) unsent
            LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL AND unsent.is_unsent
            LEFT JOIN disputed ON disputed.vendor_id = i.vendor_id
            LEFT JOIN lost ON lost.vendor_id = i.vendor_id
            LEFT JOIN ledger_accounts debt ON debt.kind = 'vendor_receivable' AND debt.owner_id = i.vendor_id
            LEFT JOIN LATERAL (
                SELECT count(*) AS arrived, avg(amount_minor)::bigint AS average_minor,
                    max(amount_minor) AS largest_minor, max(updated_at) AS last_paid_at
                FROM (SELECT amount_minor, updated_at FROM payout_transfer_intents x
                    WHERE x.user_id = i.user_id AND x.vendor_id IS NOT DISTINCT FROM i.vendor_id
                        AND x.status = 'success' AND x.id < i.id ORDER BY x.id DESC LIMIT :history) latest
            ) h ON true
            LEFT JOIN LATERAL (
                SELECT x.status IN ('failed', 'reversed') AS failed FROM payout_transfer_intents x
                WHERE x.user_id = i.user_id AND x.vendor_id IS NOT DISTINCT FROM i.vendor_id
                    AND x.status IN ('success', 'failed', 'reversed') AND x.id < i.id ORDER BY x.id DESC LIMIT 1
            ) l ON true
        WHERE i.batch_id = :batch_id
        ORDER BY i.id LIMIT :limit
        """
    ),
    row=PaymentFacts,
)


def show_batch_detail(
    session: Session, *, batch_id: UUID, risk: str | None, page: PageRequest, now: datetime
) -> Page:
    """Show a batch with a page of payments: most risk flags first, then the largest amount.

    :param risk: one of ``RISK_FLAGS`` or ``any``, to filter the payments
    :return: a page of payments, with the ``BatchDetail`` as data
    :raises NotFoundError: the batch does not exist
    """
    batch = show_batch(session, batch_id=batch_id)
    # A batch has at most `PAYEES_LIMIT` payments, including cancelled payments, so this limit omits none.
    rows = _SELECT_PAYMENTS.all(
        session,
        batch_id=batch_id,
        history=_HISTORY_LENGTH,
        lost_since=now - _LOST_DISPUTES_PERIOD,
        limit=2 * PAYEES_LIMIT,
    )
    is_undisbursed = batch.status in FILTERS[UNDISBURSED]
    holds = find_payout_holds(session, payouts=rows, now=now) if is_undisbursed else {}
    payments = [_add_risks(row, holds.get(row.id, ()) if row.is_unsent else (), now=now) for row in rows]
    paid = [payment for payment in payments if payment.status != states.CANCELLED]
    position = tuple(page.after("number", "number", "id"))
    listed = sorted(
        (
            payment
            for payment in paid
            if (risk is None or risk in payment.risks or (risk == ANY_RISK and payment.risks))
            and (page.position is None or payment.sort_key > position)
        ),
        key=lambda payment: payment.sort_key,
    )
    shown = page_of(listed, request=page, position_of=lambda payment: [*payment.sort_key])
    intents = _add_accounts(session, shown.items)
    totals_by_risk = _sum_up((risk, payment) for payment in paid for risk in payment.risks)
    data = BatchDetail(
        **vars(batch),
        halted=are_payouts_halted(session),
        statuses=sorted(
            _sum_up((payment.status, payment) for payment in payments).values(), key=lambda total: total.name
        ),
        risks=[totals_by_risk[risk] for risk in RISK_FLAGS if risk in totals_by_risk],
        changes=[payment for payment in payments if payment.change][:_CHANGES_LIMIT],
        intents=intents,
    )
    return Page(intents, shown.limit, shown.next_position, data=data)


def _add_risks(row: PaymentFacts, holds: tuple[Hold, ...], *, now: datetime) -> BatchPayment:
    return BatchPayment(**vars(row), holds=holds, risks=_find_risk_flags(row, holds, now=now))


def _add_accounts(session: Session, payments: list[BatchPayment]) -> list[BatchPayment]:
    """Add the bank accounts to the payments of a page."""
    account_ids = {payment.account_id for payment in payments} | {
        payment.staged_account_id for payment in payments
    }
    accounts = {
        account.id: account
        for account in session.scalars(select(PayoutAccount).where(PayoutAccount.id.in_(account_ids)))
    }
    return [
        replace(
            payment,
            account=accounts[payment.account_id],
            staged_account=None if payment.is_staged_account else accounts[payment.staged_account_id],
        )
        for payment in payments
    ]


def _sum_up(payments: Iterable[tuple[str, BatchPayment]]) -> dict[str, PaymentsTotal]:
    """Sum up payments by name."""
    amounts: defaultdict[str, list[int]] = defaultdict(list)
    for name, payment in payments:
        amounts[name].append(payment.amount_minor)
    return {name: PaymentsTotal(name, len(minors), sum(minors)) for name, minors in amounts.items()}


def _find_risk_flags(facts: PaymentFacts, holds: tuple[Hold, ...], *, now: datetime) -> list[str]:
    """Find the risk flags of a payment, in the order of ``RISK_FLAGS``."""
    present = {
        "on_hold": bool(holds),
        "account_changed_since_staging": not facts.is_staged_account,
        "account_changed": facts.account_since > now - _NEW_ACCOUNT_PERIOD,
        "name_differs": not is_plausible_account_name(facts.account_name, facts.store_name, facts.payee_name),
        "first_payout": facts.successful_payouts == 0,
        "amount_unusual": facts.average_minor is not None
        and facts.amount_minor > _UNUSUAL_AMOUNT_FACTOR * facts.average_minor,
        "under_dispute": facts.disputes > 0,
        "lost_disputes": facts.lost_disputes >= _MANY_LOST_DISPUTES,
        "not_active": not facts.is_payee_active,
        "owes_money": facts.owes_minor > 0,
        "failed_before": facts.last_failed,
    }
    return [risk for risk in RISK_FLAGS if present[risk]]
