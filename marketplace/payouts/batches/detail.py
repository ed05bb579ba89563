"""A batch as an officer reads it before the approval: each payment with its risks, the riskiest first."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.payouts import states
from marketplace.payouts.accounting import Reservation
from marketplace.payouts.batches.queries import FILTERS, UNDISBURSED, BatchView, show_batch
from marketplace.payouts.batches.staging import PAYEES_LIMIT
from marketplace.payouts.models import PayoutAccount
from marketplace.payouts.payees.holds import Hold, find_payout_holds
from marketplace.payouts.payees.name_matching import is_plausible_account_name
from marketplace.platform.halts import are_payouts_halted

ANY_RISK = "any"
_CHANGES_LIMIT = 100
# An account that is younger was changed lately, or was never paid to before.
_NEW_ACCOUNT_PERIOD = timedelta(days=30)
# Of so many payments that arrived, the latest ones, the average is what is usual; so many times that is not.
_HISTORY_LENGTH = 12
_UNUSUAL_AMOUNT_FACTOR = 3

# In the order in which an officer looks at them, and in words.
RISK_FLAGS: dict[str, str] = {
    "on_hold": "Nothing is paid to the payee now: `holds` says why and until when. The batch is not sent meanwhile.",
    "account_changed_since_staging": "The payee has another bank account than when the batch was staged.",
    "account_changed": "The bank account has been the payee's for less than 30 days.",
    "name_differs": "The bank account's name is like neither the store's nor the person's.",
    "first_payout": "No payment has arrived at the payee before.",
    "amount_unusual": "It is more than three times the average of the latest 12 payments that arrived.",
    "under_dispute": "An order of the store is under dispute, here or at a customer's bank.",
    "not_active": "The store or the person's account is suspended, restricted or closed.",
    "owes_money": "The vendor owes money for orders that were refunded after their release.",
    "failed_before": "The latest payment to the payee failed, or came back.",
}


@dataclass(frozen=True)
class PaymentFacts(Reservation):
    """A payment of a batch with its payee, its bank account, and the payee's history; amounts in kobo."""

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
    owes_minor: int

    @property
    def payee_view(self) -> "PaymentFacts":
        """The payee with names, in columns of the payment itself."""
        return self


@dataclass(frozen=True)
class BatchPayment(PaymentFacts):
    """A payment of a batch with its holds and risks.

    ``account`` is the bank account that the payment goes or went to, ``staged_account`` another one at the staging.
    Payments off the page have neither.
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
        """The payee's former payouts, in columns of the payment itself."""
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
        """The payment's place among the others: the most risks first, then the largest amount."""
        return -len(self.risks), -self.amount_minor, str(self.id)


@dataclass(frozen=True)
class PaymentsTotal:
    """The number of payments with a status or a risk, and their sum in kobo."""

    name: str
    payments: int
    amount_minor: int

    @property
    def meaning(self) -> str | None:
        """The description of a risk."""
        return RISK_FLAGS.get(self.name)


@dataclass(frozen=True)
class BatchDetail(BatchView):
    """A batch with its payments' totals and changes, and a page of its payments."""

    halted: bool
    statuses: list[PaymentsTotal]
    risks: list[PaymentsTotal]
    changes: list[BatchPayment]
    intents: list[BatchPayment]


# One pass over the batch; an index finds each payee's history. Sent payments went to the account that was approved,
# whichever account the payee has now.
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
            coalesce(debt.balance_minor, 0) AS owes_minor
        FROM payout_transfer_intents i
            JOIN profiles p ON p.id = i.user_id
            JOIN payout_accounts s ON s.id = i.account_id
            LEFT JOIN payout_transfers t ON t.intent_id = i.id
            CROSS JOIN LATERAL (SELECT i.status = 'pending' AND t.sent_at IS NULL AS is_unsent) unsent
            LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL AND unsent.is_unsent
            LEFT JOIN disputed ON disputed.vendor_id = i.vendor_id
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
    """Show a batch with its payments, those with the most risks and then the largest first.

    :param risk: only payments with this one of ``RISK_FLAGS``, or with ``any``
    :return: a page of payments, with the ``BatchDetail`` as its data
    :raises NotFoundError: the batch does not exist
    """
    batch = show_batch(session, batch_id=batch_id)
    # Cancelled payments may exceed the limit of a batch, by as many again at most.
    rows = _SELECT_PAYMENTS.all(session, batch_id=batch_id, history=_HISTORY_LENGTH, limit=2 * PAYEES_LIMIT)
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
    """Sum payments up by a name."""
    amounts: defaultdict[str, list[int]] = defaultdict(list)
    for name, payment in payments:
        amounts[name].append(payment.amount_minor)
    return {name: PaymentsTotal(name, len(minors), sum(minors)) for name, minors in amounts.items()}


def _find_risk_flags(facts: PaymentFacts, holds: tuple[Hold, ...], *, now: datetime) -> list[str]:
    """Find the risks of a payment, in the order of ``RISK_FLAGS``."""
    present = {
        "on_hold": bool(holds),
        "account_changed_since_staging": not facts.is_staged_account,
        "account_changed": facts.account_since > now - _NEW_ACCOUNT_PERIOD,
        "name_differs": not is_plausible_account_name(facts.account_name, facts.store_name, facts.payee_name),
        "first_payout": facts.successful_payouts == 0,
        "amount_unusual": facts.average_minor is not None
        and facts.amount_minor > _UNUSUAL_AMOUNT_FACTOR * facts.average_minor,
        "under_dispute": facts.disputes > 0,
        "not_active": not facts.is_payee_active,
        "owes_money": facts.owes_minor > 0,
        "failed_before": facts.last_failed,
    }
    return [risk for risk in RISK_FLAGS if present[risk]]
