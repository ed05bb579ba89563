"""Reservations: what somebody is to be paid, taken out of their balance in the books when it is asked for or staged.

The books hold that nothing is reserved twice: no balance is ever negative. Whoever makes a reservation locks the
balances first, and looks for one that waits only then: so two at once can neither reserve the same money nor wait for
each other.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account
from marketplace.ledger.operations import NewTransaction, Posting, lock_balances, post_transactions
from marketplace.payments.chargebacks.losses import CHARGEBACK
from marketplace.payouts import states

STAGED = "payout_staged"
CANCELLED = "payout_cancelled"
CLAWBACK_COLLECTED = "clawback_collected"
SENT_AFTER_ALL = "payout_sent_after_all"

BELOW_MINIMUM = "below_minimum"
ALREADY_PENDING = "waiting"

_SOURCE_PREFIX = "payout:"

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
        RETURNING id, user_id, vendor_id, amount_minor
        """
    )
)
_CANCEL_PAYOUTS = Statement(
    text(
        """
        UPDATE payout_transfer_intents SET status = :status, updated_at = :now, stalled_at = NULL
        WHERE id = ANY(:ids) AND status = 'pending'
        """
    )
)
# What was collected before only grows, so it tells one collection from a vendor from the next; and since the oldest
# debts are paid off first, it tells with the amount which debts those are.
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
# What vendors come to owe us for, other than refunds.
_DEBT_REASONS = {
    CHARGEBACK: "an order whose payment a bank took back",
    SENT_AFTER_ALL: "a payout that was sent although its money was back",
}
_REFUND_DEBT_REASON = "an order that was refunded after its release"


@dataclass(frozen=True, slots=True)
class Payee:
    """Who is paid, and from what: a vendor for their store, or (no store) somebody out of their wallet."""

    user_id: UUID
    vendor_id: UUID | None

    @property
    def balance_account(self) -> Account:
        """Name the account of the books that the payee is paid from."""
        if self.vendor_id is None:
            return accounts.wallet(self.user_id)
        return accounts.vendor_payable(self.vendor_id)

    @property
    def debt_account(self) -> Account | None:
        """Name the account of what a vendor owes us, which is taken before they are paid."""
        return None if self.vendor_id is None else accounts.vendor_receivable(self.vendor_id)


@dataclass(frozen=True, slots=True)
class PayoutRequest:
    """What somebody is to be paid: so much in kobo, or (none) all that there is; and to which bank account."""

    payee: Payee
    account_id: UUID
    amount_minor: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was reserved for somebody, as an intent; in kobo."""

    payout_id: UUID
    payee: Payee
    amount_minor: int


@dataclass(frozen=True, slots=True)
class ReservationResult:
    """What was reserved, why not for others (``below_minimum``, ``waiting``), and what of debts was collected."""

    reservations: list[Reservation]
    skipped: dict[Payee, str]
    collected_minor: dict[Payee, int]


def reserve_payouts(
    session: Session,
    *,
    requests: Sequence[PayoutRequest],
    batch_id: UUID | None,
    minimum_minor: int,
    requested_by_payee: bool = False,
    now: datetime,
) -> ReservationResult:
    """Reserve what people are to be paid from their balances, one intent for each.

    What a vendor owes us is taken first. Who has an intent that waits already gets none, and neither does who would
    get less than the minimum.

    :param requests: at most one for each payee
    :param batch_id: the batch that pays it; none: it waits for the next one
    :param minimum_minor: kobo that are the least to be paid at once
    :param requested_by_payee: whether the payee asked for it
    :param now: when
    :raises InsufficientFundsError: a request is for more than there is
    """
    if not requests:
        return ReservationResult([], {}, {})
    balances = lock_balances(
        session, accounts=list(_list_ledger_accounts(request.payee for request in requests))
    )
    collected = {request.payee: _collectable_debt(request.payee, balances) for request in requests}
    amounts = {
        request: balances[request.payee.balance_account] - collected[request.payee]
        if request.amount_minor is None
        else request.amount_minor
        for request in requests
    }
    sufficient = [request for request in requests if amounts[request] >= max(minimum_minor, 1)]
    reserved = _insert_payouts(
        session, sufficient, amounts, batch_id=batch_id, requested_by_payee=requested_by_payee, now=now
    )
    reserved_payees = {reservation.payee for reservation in reserved}
    post_transactions(
        session,
        transactions=[
            *_build_collection_movements(
                session, {payee: amount_minor for payee, amount_minor in collected.items() if amount_minor}
            ),
            *(
                _build_reservation_movement(reservation, STAGED, "Payout", reserving=True)
                for reservation in reserved
            ),
        ],
        now=now,
    )
    skipped = {
        request.payee: ALREADY_PENDING if request in sufficient else BELOW_MINIMUM
        for request in requests
        if request.payee not in reserved_payees
    }
    return ReservationResult(
        reserved, skipped, {payee: amount_minor for payee, amount_minor in collected.items() if amount_minor}
    )


def cancel_reservations(
    session: Session, *, payouts: Collection[dict[str, Any]], now: datetime
) -> list[Reservation]:
    """Cancel intents that wait, and give their money back to the balances it came from.

    :param payouts: locked rows with id, user_id, vendor_id, amount_minor and status; those that do not wait stay
    :param now: when
    :return: what was given back
    """
    status = states.PAYOUT.target(states.PENDING, "cancel")
    cancelled = [
        Reservation(row["id"], Payee(row["user_id"], row["vendor_id"]), row["amount_minor"])
        for row in payouts
        if row["status"] == states.PENDING
    ]
    _CANCEL_PAYOUTS.run(
        session, ids=[reservation.payout_id for reservation in cancelled], status=status, now=now
    )
    movements = [
        _build_reservation_movement(reservation, CANCELLED, "Payout that was called off", reserving=False)
        for reservation in cancelled
    ]
    post_transactions(session, transactions=movements, now=now)
    return cancelled


def payout_source(payout_id: UUID) -> str:
    """Name an intent as the cause of its transactions in the books."""
    return f"{_SOURCE_PREFIX}{payout_id}"


def parse_payout_source(source: str) -> UUID:
    """Give the intent that ``payout_source`` named."""
    return UUID(source.removeprefix(_SOURCE_PREFIX))


def _list_ledger_accounts(payees: Any) -> Any:
    for payee in payees:
        yield payee.balance_account
        if payee.debt_account is not None:
            yield payee.debt_account


def _collectable_debt(payee: Payee, balances: dict[Account, int]) -> int:
    return (
        0
        if payee.debt_account is None
        else min(balances[payee.balance_account], balances[payee.debt_account])
    )


def _insert_payouts(
    session: Session,
    requests: Sequence[PayoutRequest],
    amounts: dict[PayoutRequest, int],
    *,
    batch_id: UUID | None,
    requested_by_payee: bool,
    now: datetime,
) -> list[Reservation]:
    rows = _INSERT_PAYOUTS.all(
        session,
        batch_id=batch_id,
        status=states.PAYOUT.initial,
        asked_for=requested_by_payee,
        users=[request.payee.user_id for request in requests],
        vendors=[request.payee.vendor_id for request in requests],
        accounts=[request.account_id for request in requests],
        amounts=[amounts[request] for request in requests],
        now=now,
    )
    return [
        Reservation(row["id"], Payee(row["user_id"], row["vendor_id"]), row["amount_minor"]) for row in rows
    ]


def _build_collection_movements(session: Session, collected: dict[Payee, int]) -> list[NewTransaction]:
    """Give the movements that take what vendors owe us from what we owe them, each saying what it is for."""
    debts = {payee.debt_account: payee for payee in collected if payee.debt_account is not None}
    if not debts:
        return []
    amounts = [collected[payee] for payee in debts.values()]
    paid_off = {
        row["account_id"]: row
        for row in _SELECT_DEBTS_PAID_OFF.all(session, ids=[debt.id for debt in debts], minors=amounts)
    }
    return [
        NewTransaction(
            CLAWBACK_COLLECTED,
            f"clawback:{payee.vendor_id}:{paid_off[debt.id]['before_minor']}",
            f"Taken for {_describe_debts(paid_off[debt.id]['kinds'])}",
            [
                Posting(payee.balance_account, "debit", collected[payee]),
                Posting(debt, "credit", collected[payee]),
            ],
        )
        for debt, payee in debts.items()
    ]


def _describe_debts(kinds: Collection[str]) -> str:
    """Tell what debts are for, by the kinds of the transactions that they came of."""
    return ", and for ".join(sorted({_DEBT_REASONS.get(kind, _REFUND_DEBT_REASON) for kind in kinds}))


def _build_reservation_movement(
    reservation: Reservation, kind: str, description: str, *, reserving: bool
) -> NewTransaction:
    """Give the movement of a reservation out of its payee's balance, or back into it."""
    return NewTransaction(
        kind,
        payout_source(reservation.payout_id),
        description,
        [
            Posting(
                reservation.payee.balance_account,
                "debit" if reserving else "credit",
                reservation.amount_minor,
            ),
            Posting(
                accounts.PAYOUTS_IN_TRANSIT, "credit" if reserving else "debit", reservation.amount_minor
            ),
        ],
    )
