"""Ledger transactions of payouts: reservations, and transfers that were sent, failed or returned.

A reservation moves the amount of a payout out of the payee's balance when the payout is requested or staged. Balances
are never negative, so no amount is reserved twice. A reservation locks the balances before the look-up of pending
payouts. Concurrent reservations can therefore neither reserve the same amount nor deadlock.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.ledger import accounts
from marketplace.ledger.operations import (
    NewTransaction,
    Posting,
    lock_balances,
    post_transaction,
    post_transactions,
)
from marketplace.payments.chargebacks.losses import CHARGEBACK
from marketplace.payouts import states, texts
from marketplace.payouts.models import PayoutTransferIntent
from marketplace.payouts.share_holds import sum_held_shares

STAGED: Final = "payout_staged"
SENT_AFTER_ALL: Final = "payout_sent_after_all"

BELOW_MINIMUM = "below_minimum"
ALREADY_PENDING = "waiting"
SHARE_ON_HOLD = "share_on_hold"

_SOURCE_PREFIX = "payout:"

# Causes of vendors' debts, other than refunds.
_DEBT_REASONS = {
    CHARGEBACK: texts.LEDGER_DEBT_CHARGEBACK,
    SENT_AFTER_ALL: texts.LEDGER_DEBT_PAYOUT_SENT_AFTER_RETURN,
}


@dataclass(frozen=True)
class Payee:
    """The recipient of a payout: a vendor paid for a store or, without a store, a person paid from the wallet."""

    user_id: UUID
    vendor_id: UUID | None

    @property
    def balance_account(self) -> accounts.Account:
        """The payee's ledger account that payouts are debited from."""
        if self.vendor_id is None:
            return accounts.wallet(self.user_id)
        return accounts.vendor_payable(self.vendor_id)

    @property
    def debt_account(self) -> accounts.Account | None:
        """The ledger account of the vendor's debt, which is collected before payouts."""
        return None if self.vendor_id is None else accounts.vendor_receivable(self.vendor_id)


@dataclass(frozen=True)
class PayeePayout:
    """A payout and the payee."""

    id: UUID
    user_id: UUID
    vendor_id: UUID | None

    @property
    def payee(self) -> Payee:
        """The recipient of the payout."""
        return Payee(self.user_id, self.vendor_id)


@dataclass(frozen=True)
class Reservation(PayeePayout):
    """A payout with the reserved amount in kobo."""

    amount_minor: int
    status: str


@dataclass(frozen=True)
class PayoutRequest:
    """An amount in kobo to pay to a payee's bank account; by default the full balance."""

    payee: Payee
    account_id: UUID
    amount_minor: int | None = None


@dataclass(frozen=True)
class ReservationResult:
    """The new reservations, the skipped payees with a reason each, and the collected debts in kobo."""

    reservations: list[Reservation]
    skipped: dict[Payee, str]
    collected_minor: dict[Payee, int]


@dataclass(frozen=True)
class OutgoingTransfer:
    """A payout's transfer to the payee's bank account. The recipient code is none until the gateway has one."""

    reference: str
    amount_minor: int
    account_id: UUID
    recipient_code: str | None
    account_name: str = field(repr=False)
    account_number: str = field(repr=False)
    bank_code: str


@dataclass(frozen=True)
class Payout(Reservation, OutgoingTransfer):
    """A payout of a dispatched batch, with transfer and bank account."""

    batch_id: UUID
    gateway_transfer_id: str | None
    fee_minor: int
    attempts: int
    times_returned: int
    ask_at: datetime | None
    sent_at: datetime | None
    updated_at: datetime
    account_replaced: bool


_INSERT_PAYOUTS = Statement(
    text(
        """
        INSERT INTO payout_transfer_intents
            (batch_id, user_id, vendor_id, account_id, amount_minor, status, asked_for, created_at, updated_at)
        SELECT :batch_id, w.user_id, w.vendor_id, w.account_id, w.amount_minor, :status, :asked_for, :now, :now
        FROM unnest(
            CAST(:users AS uuid[]), CAST(:vendors AS uuid[]), CAST(:accounts AS uuid[]), CAST(:amounts AS bigint[])
        ) AS w (user_id, vendor_id, account_id, amount_minor)
        WHERE NOT EXISTS (SELECT FROM payout_transfer_intents i WHERE i.user_id = w.user_id
            AND i.vendor_id IS NOT DISTINCT FROM w.vendor_id AND i.status = 'pending')
        RETURNING id, user_id, vendor_id, amount_minor, status
        """
    ),
    row=Reservation,
)


def reserve_payouts(
    session: Session,
    *,
    requests: Sequence[PayoutRequest],
    batch_id: UUID | None,
    minimum_minor: int,
    requested_by_payee: bool = False,
    now: datetime,
) -> ReservationResult:
    """Collect the vendors' debts, then reserve payouts from the payees' balances.

    Locks the balances. Skips payees with a pending payout and payees below the minimum. Held shares are not paid.

    :param requests: at most one for each payee
    :param batch_id: the batch that pays; without a batch, the payouts wait for the next batch
    :param minimum_minor: kobo
    :raises InsufficientFundsError: a request exceeds the balance; the caller leaves held shares out of named amounts
    """
    if not requests:
        return ReservationResult([], {}, {})
    payees = [request.payee for request in requests]
    balances = lock_balances(
        session,
        accounts=[
            account
            for payee in payees
            for account in (payee.balance_account, payee.debt_account)
            if account is not None
        ],
    )
    collected = {payee: minor for payee in payees if (minor := _collectable_debt(payee, balances))}
    held = sum_held_shares(
        session, vendor_ids=[payee.vendor_id for payee in payees if payee.vendor_id], now=now
    )
    amounts = {
        request: _payable_minor(request.payee, balances, collected, held)
        if request.amount_minor is None
        else request.amount_minor
        for request in requests
    }
    sufficient = [request for request in requests if amounts[request] >= max(minimum_minor, 1)]
    reserved = _INSERT_PAYOUTS.all(
        session,
        batch_id=batch_id,
        status=states.PAYOUT.initial,
        asked_for=requested_by_payee,
        users=[request.payee.user_id for request in sufficient],
        vendors=[request.payee.vendor_id for request in sufficient],
        accounts=[request.account_id for request in sufficient],
        amounts=[amounts[request] for request in sufficient],
        now=now,
    )
    post_transactions(
        session,
        transactions=[
            *_build_collection_movements(session, collected),
            *(
                _build_reservation_movement(payout, STAGED, texts.LEDGER_PAYOUT, reserving=True)
                for payout in reserved
            ),
        ],
        now=now,
    )
    reserved_payees = {payout.payee for payout in reserved}
    return ReservationResult(
        reserved,
        skipped={
            request.payee: ALREADY_PENDING
            if request in sufficient
            else SHARE_ON_HOLD
            if request.payee.vendor_id in held
            else BELOW_MINIMUM
            for request in requests
            if request.payee not in reserved_payees
        },
        collected_minor=collected,
    )


def cancel_reservations(
    session: Session, *, payouts: Collection[Reservation], now: datetime
) -> list[Reservation]:
    """Cancel pending payouts and return the amounts to the payees' balances.

    :param payouts: locked by the caller; payouts with other statuses are ignored
    :return: the cancelled payouts
    """
    cancelled = [payout for payout in payouts if payout.status == states.PENDING]
    session.execute(
        update(PayoutTransferIntent)
        .where(
            PayoutTransferIntent.id.in_([payout.id for payout in cancelled]),
            PayoutTransferIntent.status == states.PENDING,
        )
        .values(status=states.PAYOUT.target(states.PENDING, "cancel"), updated_at=now, stalled_at=None)
    )
    post_transactions(
        session,
        transactions=[
            _build_reservation_movement(
                payout, "payout_cancelled", texts.LEDGER_PAYOUT_CANCELLED, reserving=False
            )
            for payout in cancelled
        ],
        now=now,
    )
    return cancelled


def payout_source(payout_id: UUID) -> str:
    """Format a payout's id as the source of ledger transactions."""
    return f"{_SOURCE_PREFIX}{payout_id}"


def parse_payout_source(source: str) -> UUID:
    """Parse the payout's id from a source in the format of ``payout_source``."""
    return UUID(source.removeprefix(_SOURCE_PREFIX))


def _payable_minor(
    payee: Payee, balances: dict[accounts.Account, int], collected: dict[Payee, int], held: dict[UUID, int]
) -> int:
    """Return the part of a balance that can be paid after the debts, without held shares."""
    left_minor = balances[payee.balance_account] - collected.get(payee, 0)
    return left_minor - (held.get(payee.vendor_id, 0) if payee.vendor_id else 0)


def _collectable_debt(payee: Payee, balances: dict[accounts.Account, int]) -> int:
    if payee.debt_account is None:
        return 0
    return min(balances[payee.balance_account], balances[payee.debt_account])


# The sum of a vendor's earlier collections grows with each collection, so the sum serves as the source of the next one.
# The oldest debts are paid off first. The sum and the collected amount therefore determine the debts that are paid off.
_SELECT_DEBTS_PAID_OFF = Statement(
    text(
        """
        SELECT w.account_id, before.minor AS before_minor, array_agg(DISTINCT debt.kind) AS kinds
        FROM unnest(CAST(:ids AS uuid[]), CAST(:minors AS bigint[])) AS w (account_id, minor)
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(e.amount_minor), 0)::bigint AS minor FROM ledger_entries e
                WHERE e.account_id = w.account_id AND e.direction = 'credit'
            ) before
            CROSS JOIN LATERAL (
                SELECT e.kind, e.amount_minor, sum(e.amount_minor) OVER (ORDER BY e.created_at, e.id) AS up_to_minor
                FROM ledger_entries e WHERE e.account_id = w.account_id AND e.direction = 'debit'
            ) debt
        WHERE debt.up_to_minor > before.minor
            AND debt.up_to_minor - debt.amount_minor < before.minor + w.minor
        GROUP BY w.account_id, before.minor
        """
    )
)


def _build_collection_movements(session: Session, collected: dict[Payee, int]) -> list[NewTransaction]:
    """Build the transactions that offset vendors' debts against balances."""
    debts = {payee.debt_account: payee for payee in collected if payee.debt_account is not None}
    if not debts:
        return []
    paid_off = {
        row["account_id"]: row
        for row in _SELECT_DEBTS_PAID_OFF.all(
            session, ids=[debt.id for debt in debts], minors=[collected[payee] for payee in debts.values()]
        )
    }
    reasons = {
        debt_id: sorted({_DEBT_REASONS.get(kind, texts.LEDGER_DEBT_REFUND) for kind in row["kinds"]})
        for debt_id, row in paid_off.items()
    }
    return [
        NewTransaction(
            "clawback_collected",
            f"clawback:{payee.vendor_id}:{paid_off[debt.id]['before_minor']}",
            " ".join(reasons[debt.id]),
            [
                Posting(payee.balance_account, "debit", collected[payee]),
                Posting(debt, "credit", collected[payee]),
            ],
        )
        for debt, payee in debts.items()
    ]


def _build_reservation_movement(
    payout: Reservation, kind: accounts.TransactionKind, description: str, *, reserving: bool
) -> NewTransaction:
    """Build the transaction that moves a payout's amount out of the payee's balance, or back."""
    return NewTransaction(
        kind,
        payout_source(payout.id),
        description,
        [
            Posting(payout.payee.balance_account, "debit" if reserving else "credit", payout.amount_minor),
            Posting(accounts.PAYOUTS_IN_TRANSIT, "credit" if reserving else "debit", payout.amount_minor),
        ],
    )


def post_payout_sent(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> None:
    """Post a payout that the gateway has sent.

    :param fee_minor: the gateway's fee in kobo, not included in the amount
    """
    post_transaction(
        session,
        kind="payout",
        source=payout_source(payout.id),
        description=texts.LEDGER_PAYOUT_SENT,
        postings=[
            Posting(accounts.PAYOUTS_IN_TRANSIT, "debit", payout.amount_minor),
            *([Posting(accounts.GATEWAY_FEES, "debit", fee_minor)] if fee_minor else []),
            Posting(accounts.GATEWAY_CLEARING, "credit", payout.amount_minor + fee_minor),
        ],
        now=now,
    )


def post_payout_returned(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> None:
    """Post a failed or reversed payout, and return the amount to the payee's balance.

    :param fee_minor: the returned part of the gateway's fee in kobo; the rest stays the platform's cost
    """
    was_sent = payout.status == states.SUCCESS
    times_returned, source = payout.times_returned + 1, payout_source(payout.id)
    post_transaction(
        session,
        kind="payout_reversed" if was_sent else "payout_returned",
        source=source if times_returned == 1 else f"{source}:{times_returned}",
        description=texts.LEDGER_PAYOUT_REVERSED if was_sent else texts.LEDGER_PAYOUT_FAILED,
        postings=[
            Posting(
                accounts.GATEWAY_CLEARING if was_sent else accounts.PAYOUTS_IN_TRANSIT,
                "debit",
                payout.amount_minor + fee_minor,
            ),
            *([Posting(accounts.GATEWAY_FEES, "credit", fee_minor)] if fee_minor else []),
            Posting(payout.payee.balance_account, "credit", payout.amount_minor),
        ],
        now=now,
    )


def post_payout_sent_after_all(session: Session, payout: Payout, *, fee_minor: int, now: datetime) -> int:
    """Post a payout that was sent although the amount had already been returned.

    The payee's balance is debited as far as possible. The rest becomes a debt, collected from the next amounts.

    :param fee_minor: the gateway's fee in kobo, not included in the amount
    :return: the debt in kobo
    """
    payee = payout.payee
    debt_account = payee.debt_account or accounts.buyer_receivable(payee.user_id)
    balances = lock_balances(session, accounts=[payee.balance_account, debt_account])
    debited_minor = min(payout.amount_minor, balances[payee.balance_account])
    debits = (
        (payee.balance_account, debited_minor),
        (debt_account, payout.amount_minor - debited_minor),
        (accounts.GATEWAY_FEES, fee_minor),
    )
    post_transaction(
        session,
        kind=SENT_AFTER_ALL,
        source=f"{payout_source(payout.id)}:{payout.times_returned}",
        description=texts.LEDGER_PAYOUT_SENT_AFTER_RETURN,
        postings=[
            *(Posting(account, "debit", minor) for account, minor in debits if minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", payout.amount_minor + fee_minor),
        ],
        now=now,
    )
    return payout.amount_minor - debited_minor
