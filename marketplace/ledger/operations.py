"""Posting: the only functions that write the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.outbox import after_commit
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.signals import RECORDER
from marketplace.ledger.accounts import GATEWAY_CLEARING, OWNED_KINDS, Account, Side, TransactionKind
from marketplace.ledger.models import LedgerAccount


@dataclass(frozen=True, slots=True)
class Posting:
    """A debit or credit of a transaction, with the order that the money belongs to."""

    account: Account
    direction: Side
    amount_minor: int
    order_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewTransaction:
    """A transaction to be posted by ``post_transactions``."""

    kind: TransactionKind
    source: str
    description: str
    postings: Sequence[Posting]


class AlreadyPostedError(ConflictError):
    """The ledger already has a transaction for this cause."""

    reason = "already-posted"


class InsufficientFundsError(ConflictError):
    """The account of a user or store would become negative."""

    reason = "insufficient-funds"


# All money operations lock balances last and in id order, so postings cannot deadlock.
_LOCK_OWNED_ACCOUNTS = Prepared(
    text("SELECT id, balance_minor FROM ledger_accounts WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE")
)


def lock_balances(session: Session, *, accounts: Sequence[Account]) -> dict[Account, int]:
    """Lock accounts with owners, and return the balances in kobo.

    Pass all accounts of later postings in the same call, so that the locks are taken in id order.
    """
    balances = dict(_LOCK_OWNED_ACCOUNTS.tuples(session, ids=sorted(account.id for account in accounts)))
    # An account that was never opened has the balance 0 and needs no lock.
    return {account: balances.get(account.id, 0) for account in accounts}


_INSERT_TRANSACTION = Prepared(
    text(
        """
        WITH posted AS (
            INSERT INTO ledger_transactions (kind, source, description, created_at)
            VALUES (:kind, :source, :description, :now)
            ON CONFLICT (kind, source) DO NOTHING
            RETURNING id
        ), moved AS (
            UPDATE ledger_accounts AS account SET balance_minor = new.balance_minor
            FROM posted, unnest(CAST(:owned AS uuid[]), CAST(:balances AS bigint[])) AS new (id, balance_minor)
            WHERE account.id = new.id
        ), entered AS (
            INSERT INTO ledger_entries
                (transaction_id, kind, account_id, direction, amount_minor, balance_after_minor, order_id,
                created_at)
            SELECT posted.id, :kind, e.account_id, e.direction, e.amount_minor, e.balance_after, e.order_id, :now
            FROM posted, unnest(
                CAST(:accounts AS uuid[]), CAST(:directions AS text[]), CAST(:amounts AS bigint[]),
                CAST(:balances_after AS bigint[]), CAST(:orders AS uuid[])
            ) WITH ORDINALITY AS e (account_id, direction, amount_minor, balance_after, order_id, position)
            ORDER BY e.position
        )
        SELECT id FROM posted
        """
    )
)


# A transaction of one account with an owner needs no separate lock. The update locks the row, and adds to the balance
# that the row has then. Without the account nothing is written.
_INSERT_TRANSACTION_OF_ONE_OWNER = Prepared(
    text(
        """
        WITH posted AS (
            INSERT INTO ledger_transactions (kind, source, description, created_at)
            SELECT CAST(:kind AS text), CAST(:source AS text), CAST(:description AS text), CAST(:now AS timestamptz)
            WHERE EXISTS (SELECT FROM ledger_accounts WHERE id = :owned)
            ON CONFLICT (kind, source) DO NOTHING
            RETURNING id
        ), moved AS (
            UPDATE ledger_accounts AS account SET balance_minor = account.balance_minor + CAST(:change AS bigint)
            FROM posted WHERE account.id = :owned
            RETURNING posted.id, account.balance_minor - CAST(:change AS bigint) AS balance_before
        ), entered AS (
            INSERT INTO ledger_entries
                (transaction_id, kind, account_id, direction, amount_minor, balance_after_minor, order_id,
                created_at)
            SELECT moved.id, :kind, e.account_id, e.direction, e.amount_minor, moved.balance_before + e.change,
                e.order_id, :now
            FROM moved, unnest(
                CAST(:accounts AS uuid[]), CAST(:directions AS text[]), CAST(:amounts AS bigint[]),
                CAST(:changes AS bigint[]), CAST(:orders AS uuid[])
            ) WITH ORDINALITY AS e (account_id, direction, amount_minor, change, order_id, position)
            ORDER BY e.position
        )
        SELECT id FROM posted
        """
    )
)


def post_transaction(
    session: Session,
    *,
    kind: TransactionKind,
    source: str,
    description: str,
    postings: Sequence[Posting],
    now: datetime,
) -> UUID:
    """Post a balanced transaction, and update the balances of accounts with owners.

    :param kind: the type of the transaction: payment, release, refund, ...
    :param source: the cause, such as ``charge:123``; unique within a kind
    :param description: one line for statements, without personal data
    :param postings: at least two, with equal totals of debits and credits
    :return: the transaction's id
    :raises ValueError: the postings do not balance, which is a bug of the caller
    :raises InsufficientFundsError: the balance of an owner would become negative
    :raises AlreadyPostedError: the ledger already has a transaction for this cause
    """
    _ensure_balanced(postings)
    columns = {
        "kind": kind,
        "source": source,
        "description": description,
        "now": now,
        "accounts": [posting.account.id for posting in postings],
        "directions": [posting.direction for posting in postings],
        "amounts": [posting.amount_minor for posting in postings],
        "orders": [posting.order_id for posting in postings],
    }
    owned = {posting.account.id for posting in postings if posting.account.kind in OWNED_KINDS}
    transaction_id: UUID | None = None
    if len(owned) == 1:
        [account_id] = owned
        changes = _running_changes(account_id, postings)
        own_changes = [change for change in changes if change is not None]
        # A change that takes from the present balance needs the check of `_apply_postings`.
        if min(own_changes) >= 0:
            transaction_id = _INSERT_TRANSACTION_OF_ONE_OWNER.scalar(
                session, **columns, owned=account_id, change=own_changes[-1], changes=changes
            )
    if transaction_id is None:
        balances = _lock_or_open_accounts(session, postings, now=now)
        balances_after = _apply_postings(balances, postings)
        transaction_id = _INSERT_TRANSACTION.scalar(
            session,
            **columns,
            owned=list(balances),
            balances=list(balances.values()),
            balances_after=balances_after,
        )
    if transaction_id is None:
        raise AlreadyPostedError(f"The ledger already has a {kind} transaction for {source}.")
    _count_after_commit(session, [(kind, postings)])
    return transaction_id


def post_gateway_movement(
    session: Session,
    *,
    kind: TransactionKind,
    source: str,
    description: str,
    amount_minor: int,
    counter_account: Account,
    now: datetime,
) -> UUID:
    """Post a change of the gateway's balance against a counter account.

    :param amount_minor: kobo; negative for a decrease of the gateway's balance
    :param counter_account: the source or destination of the money
    :return: the transaction's id
    :raises AlreadyPostedError: the ledger already has a transaction for this cause
    """
    sides: tuple[Side, Side] = ("debit", "credit") if amount_minor > 0 else ("credit", "debit")
    return post_transaction(
        session,
        kind=kind,
        source=source,
        description=description,
        postings=[
            Posting(account, side, abs(amount_minor))
            for account, side in zip((GATEWAY_CLEARING, counter_account), sides, strict=True)
        ],
        now=now,
    )


# Like `_INSERT_TRANSACTION`, for many transactions. If any transaction already exists, no balance changes and no entry
# is inserted.
_INSERT_TRANSACTIONS = Statement(
    text(
        """
        WITH posted AS (
            INSERT INTO ledger_transactions (kind, source, description, created_at)
            SELECT kind, source, description, :now FROM unnest(
                CAST(:kinds AS text[]), CAST(:sources AS text[]), CAST(:descriptions AS text[])
            ) AS given (kind, source, description)
            ON CONFLICT (kind, source) DO NOTHING
            RETURNING id, kind, source
        ), whole AS (
            SELECT FROM posted HAVING count(*) = cardinality(CAST(:sources AS text[]))
        ), moved AS (
            UPDATE ledger_accounts AS account SET balance_minor = new.balance_minor
            FROM whole, unnest(CAST(:owned AS uuid[]), CAST(:balances AS bigint[])) AS new (id, balance_minor)
            WHERE account.id = new.id
        ), entered AS (
            INSERT INTO ledger_entries
                (transaction_id, kind, account_id, direction, amount_minor, balance_after_minor, order_id,
                created_at)
            SELECT posted.id, posted.kind, e.account_id, e.direction, e.amount_minor, e.balance_after, e.order_id, :now
            FROM whole, unnest(
                CAST(:entry_kinds AS text[]), CAST(:entry_sources AS text[]), CAST(:accounts AS uuid[]),
                CAST(:directions AS text[]), CAST(:amounts AS bigint[]), CAST(:balances_after AS bigint[]),
                CAST(:orders AS uuid[])
            ) WITH ORDINALITY
                AS e (kind, source, account_id, direction, amount_minor, balance_after, order_id, position)
            JOIN posted ON posted.kind = e.kind AND posted.source = e.source
            ORDER BY e.position
        )
        SELECT count(*) AS posted FROM posted
        """
    )
)


def post_transactions(session: Session, *, transactions: Sequence[NewTransaction], now: datetime) -> None:
    """Post many balanced transactions in a single statement, in the given order.

    :param transactions: each with a different kind and source
    :raises ValueError: a transaction does not balance, which is a bug of the caller
    :raises InsufficientFundsError: the balance of an owner would become negative
    :raises AlreadyPostedError: the ledger already has one of the transactions; the caller must roll back
    """
    if not transactions:
        return
    for transaction in transactions:
        _ensure_balanced(transaction.postings)
    flat = [(transaction, posting) for transaction in transactions for posting in transaction.postings]
    postings = [posting for _, posting in flat]
    balances = _lock_or_open_accounts(session, postings, now=now)
    balances_after = _apply_postings(balances, postings)
    posted = _INSERT_TRANSACTIONS.scalar(
        session,
        kinds=[transaction.kind for transaction in transactions],
        sources=[transaction.source for transaction in transactions],
        descriptions=[transaction.description for transaction in transactions],
        now=now,
        owned=list(balances),
        balances=list(balances.values()),
        entry_kinds=[transaction.kind for transaction, _ in flat],
        entry_sources=[transaction.source for transaction, _ in flat],
        accounts=[posting.account.id for posting in postings],
        directions=[posting.direction for posting in postings],
        amounts=[posting.amount_minor for posting in postings],
        balances_after=balances_after,
        orders=[posting.order_id for posting in postings],
    )
    if posted != len(transactions):
        raise AlreadyPostedError("The ledger already has one of these transactions.")
    _count_after_commit(session, [(transaction.kind, transaction.postings) for transaction in transactions])


def _count_after_commit(session: Session, posted: Sequence[tuple[str, Sequence[Posting]]]) -> None:
    def count() -> None:
        for kind, postings in posted:
            RECORDER.count("ledger", kind)
            amount_minor = sum(posting.amount_minor for posting in postings if posting.direction == "debit")
            RECORDER.count("ledger_kobo", kind, amount_minor)

    after_commit(session, count)


def _ensure_balanced(postings: Sequence[Posting]) -> None:
    sums = {"debit": 0, "credit": 0}
    for posting in postings:
        if posting.amount_minor <= 0:
            raise ValueError("the amount of a posting must be at least 1 kobo")
        sums[posting.direction] += posting.amount_minor
    if sums["debit"] != sums["credit"] or not postings:
        raise ValueError(
            f"the postings do not balance, with {sums['debit']} debit and {sums['credit']} credit"
        )


def _lock_or_open_accounts(
    session: Session, postings: Sequence[Posting], *, now: datetime
) -> dict[UUID, int]:
    """Lock the accounts with owners, open missing accounts, and return the balances in kobo by account id."""
    owned = {
        posting.account.id: posting.account for posting in postings if posting.account.kind in OWNED_KINDS
    }
    if not owned:
        return {}
    balances = dict(_LOCK_OWNED_ACCOUNTS.tuples(session, ids=sorted(owned)))
    missing = sorted(owned.keys() - balances.keys())
    if missing:
        session.execute(
            insert(LedgerAccount).on_conflict_do_nothing(),
            [
                {
                    "id": account_id,
                    "kind": owned[account_id].kind,
                    "owner_id": owned[account_id].owner_id,
                    "normal_side": owned[account_id].normal_side,
                    "balance_minor": 0,
                    "created_at": now,
                }
                for account_id in missing
            ],
        )
        balances = dict(_LOCK_OWNED_ACCOUNTS.tuples(session, ids=sorted(owned)))
    return balances


def _running_changes(account_id: UUID, postings: Sequence[Posting]) -> list[int | None]:
    """Return the change of an account's balance up to each of its postings; None for other accounts."""
    total = 0
    changes: list[int | None] = []
    for posting in postings:
        if posting.account.id != account_id:
            changes.append(None)
            continue
        total += (
            posting.amount_minor
            if posting.direction == posting.account.normal_side
            else -posting.amount_minor
        )
        changes.append(total)
    return changes


def _apply_postings(balances: dict[UUID, int], postings: Sequence[Posting]) -> list[int | None]:
    """Apply postings to balances in place. Return the balance after each posting; None without an owner."""
    after: list[int | None] = []
    for posting in postings:
        account_id = posting.account.id
        if account_id in balances:
            sign = 1 if posting.direction == posting.account.normal_side else -1
            balances[account_id] += sign * posting.amount_minor
            if balances[account_id] < 0:
                raise InsufficientFundsError(f"The {posting.account.kind} balance is too low.")
        after.append(balances.get(account_id))
    return after
