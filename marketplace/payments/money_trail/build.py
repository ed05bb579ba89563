"""The money trail of an order: holders of the money, next steps and movements in the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import CURRENCY, format_amount
from marketplace.orders import queries as orders, states
from marketplace.orders.deadlines import ACCEPTANCE_DEADLINE, DELIVERY_DEADLINE
from marketplace.payments import states as payment_states
from marketplace.payments.charges.charge_context import split_among_orders
from marketplace.payments.guards import SELECT_CHARGEBACK_STATE
from marketplace.payments.money_trail import texts
from marketplace.payments.refunds.create import OrderRefund, list_refunds_of_orders

Role = Literal["buyer", "vendor", "staff"]
HOLDERS = ("buyer", "gateway", "escrow", "vendor", "platform", "on_the_way_back", "held_back")

# Meanings of refund transactions by the debited account. Vendor and platform bear refunds after the release.
_REFUND_MEANING_BY_SOURCE_ACCOUNT = {
    "escrow": "refund",
    "quarantine": "held_return",
    "vendor_receivable": "clawback",
    "platform_revenue": "clawback",
}
_ACCOUNTS_VISIBLE_TO_VENDOR = frozenset({"escrow", "vendor_payable", "vendor_receivable"})
_CLAWBACK_ACCOUNTS = ("vendor_receivable", "platform_revenue")


@dataclass(frozen=True)
class MoneyHolder:
    """A holder of a part of an order's money, with the reason and the next step.

    ``transaction_id`` is the ledger transaction that last changed the holder's part. ``by`` is the deadline of the next
    step. ``is_you`` marks the part that the caller holds.
    """

    holder: str
    amount_minor: int
    why: str
    next: str
    by: datetime | None = None
    transaction_id: UUID | None = None
    is_you: bool = False


@dataclass(frozen=True)
class MoneyMovement:
    """A movement of an order's money between two holders."""

    transaction_id: UUID | None
    kind: str
    amount_minor: int
    at: datetime
    from_: str
    to: str
    what: str


@dataclass(frozen=True)
class MoneyTrail:
    """The holders of an order's money and the movements, oldest first."""

    order: orders.OrderRow
    holders: list[MoneyHolder]
    entries: list[MoneyMovement]

    currency = CURRENCY


@dataclass(frozen=True)
class _OrderTransaction:
    """A ledger transaction of an order, with the net change of each kind of account in kobo."""

    id: UUID
    kind: str
    source: str
    at: datetime
    net_by_account: dict[str, int]

    @property
    def meaning(self) -> str:
        """The key of the transaction's texts.

        The kind alone does not distinguish the sources and destinations of refunds, or quarantined payments.
        """
        if self.kind == "payment" and self.source.startswith("quarantine:"):
            return "held_payment"
        if self.kind == "chargeback" and not self.net_by_account.keys() & set(_CLAWBACK_ACCOUNTS):
            return (
                "chargeback_undecided" if "lost_disputes" in self.net_by_account else "chargeback_of_refunded"
            )
        if self.kind == "chargeback_settled" and "escrow" not in self.net_by_account:
            return "chargeback_borne"
        if self.kind != "refund":
            return self.kind
        of = next(
            (
                word
                for account, word in _REFUND_MEANING_BY_SOURCE_ACCOUNT.items()
                if account in self.net_by_account
            ),
            "return",
        )
        return of if "refunds_in_transit" in self.net_by_account else f"{of.removeprefix('held_')}_to_wallet"

    @property
    def amount_minor(self) -> int:
        # The wallet may cover only a part of a duplicate payment.
        if self.meaning in ("refund_sent_twice", "chargeback_of_refunded"):
            return abs(self.net_by_account["gateway_clearing"])
        # The rest of a chargeback has reached the buyer twice and is not a movement of this order.
        if self.kind == "chargeback":
            return sum(
                abs(self.net_by_account.get(account, 0)) for account in (*_CLAWBACK_ACCOUNTS, "lost_disputes")
            )
        for account in ("escrow", "refunds_in_transit", "wallet"):
            if self.net_by_account.get(account):
                return abs(self.net_by_account[account])
        return max((abs(amount_minor) for amount_minor in self.net_by_account.values()), default=0)


# Accounts without a net change are left out, because the money only passed through these accounts.
_SELECT_TRANSACTIONS_OF_ORDER = Statement(
    text(
        """
        SELECT t.id, t.kind, t.source, t.created_at AS at,
            coalesce(jsonb_object_agg(n.account, n.minor) FILTER (WHERE n.minor <> 0), '{}') AS net_by_account
        FROM (
            SELECT e.transaction_id, a.kind AS account,
                sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
            FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
            WHERE e.order_id = :order_id GROUP BY e.transaction_id, a.kind
        ) n JOIN ledger_transactions t ON t.id = n.transaction_id
        GROUP BY t.id ORDER BY t.id
        """
    ),
    row=_OrderTransaction,
)


_SELECT_REFUNDS_AWAITING_CHARGEBACK = Statement(
    text(
        f"""
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
        WHERE r.id = ANY(:refund_ids) AND r.status = 'pending' AND ({SELECT_CHARGEBACK_STATE}) = 'open'
        """
    )
)


def build_money_trail(session: Session, *, order_id: UUID, caller: Caller) -> MoneyTrail:
    """Build the part of an order's money trail that the caller may see.

    The buyer and staff see the full trail. A campus rep sees only orders of the rep's campus. The vendor sees the
    escrow, the release and clawbacks once the order is paid. The vendor does not see the buyer's wallet, payments to
    other stores or the destination of refunds.

    :raises NotFoundError: the order does not exist, or the caller may not see the order
    """
    order, roles = orders.fetch_order_with_roles(session, order_id=order_id, caller=caller)
    role: Role = "staff" if "staff" in roles else "buyer" if "buyer" in roles else "vendor"
    quarantined_charges = [] if role == "vendor" else _list_quarantined_charges(session, order_id)
    refunds = [] if role == "vendor" else list_refunds_of_orders(session, order_ids=[order_id])
    pending = [refund.id for refund in refunds if refund.status == payment_states.PENDING]
    waiting = (
        set(_SELECT_REFUNDS_AWAITING_CHARGEBACK.scalars(session, refund_ids=pending)) if pending else set()
    )
    # Vendors do not see partial payments of an order that was never paid.
    transactions = (
        []
        if role == "vendor" and order.paid_at is None
        else _SELECT_TRANSACTIONS_OF_ORDER.all(session, order_id=order_id)
    )
    holders = [
        *_unpaid_holders(order, role, quarantined_charges),
        *_quarantine_holders(quarantined_charges),
        *_escrow_holders(order, transactions),
        *_in_transit_holders(refunds, transactions, waiting),
        *_released_holders(transactions, role),
        *_refunded_holders(transactions, refunds, role),
    ]
    return MoneyTrail(
        order,
        [replace(holder, is_you=holder.holder == role) for holder in holders],
        _timeline(transactions, quarantined_charges, role),
    )


# A quarantined charge may be for several orders, so its ledger entries name no order.
_SELECT_QUARANTINED_CHARGES = Statement(
    text(
        """
        SELECT q.ledger_transaction_id AS id, c.principal_minor AS minor, q.amount_minor, q.currency,
            q.created_at AS at, q.status, q.resolved_at, array_agg(p.order_id) AS order_ids,
            array_agg(p.amount_minor) AS amounts
        FROM payment_allocations a JOIN quarantined_charges q ON q.intent_id = a.intent_id
            JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id
            JOIN payment_allocations p ON p.intent_id = q.intent_id
        WHERE a.order_id = :order_id GROUP BY q.id, c.id ORDER BY q.id
        """
    )
)


def _list_quarantined_charges(session: Session, order_id: UUID) -> list[dict[str, Any]]:
    """List the quarantined charges of an order's payments, with the order's share in kobo.

    The share of a charge in another currency is 0.
    """
    rows = _SELECT_QUARANTINED_CHARGES.all(session, order_id=order_id)
    for row in rows:
        allocated_minor = dict(zip(row["order_ids"], row["amounts"], strict=True))
        row["foreign"] = row["currency"] != CURRENCY
        posted_minor = row["minor"] if row["id"] is not None else 0
        row["minor"] = split_among_orders(posted_minor, allocated_minor=allocated_minor).get(order_id, 0)
    return rows


def _find_last_transaction(transactions: list[_OrderTransaction], *accounts: str) -> UUID | None:
    """Find the last transaction that changed any of the accounts."""
    return next(
        (
            transaction.id
            for transaction in reversed(transactions)
            if transaction.net_by_account.keys() & set(accounts)
        ),
        None,
    )


def _unpaid_holders(
    order: orders.OrderRow, role: Role, quarantined_charges: list[dict[str, Any]]
) -> Iterator[MoneyHolder]:
    if (
        order.due_minor
        and role != "vendor"
        and not any(row["status"] == "open" for row in quarantined_charges)
    ):
        yield MoneyHolder(
            "buyer",
            order.due_minor,
            texts.UNPAID_PENDING if order.payment_status == payment_states.PENDING else texts.UNPAID,
            texts.UNPAID_NEXT,
            by=order.expires_at,
        )


def _quarantine_holders(rows: list[dict[str, Any]]) -> Iterator[MoneyHolder]:
    for row in (row for row in rows if row["status"] == "open"):
        if row["foreign"]:
            # A charge in another currency has no value in naira and no ledger transaction.
            yield MoneyHolder("held_back", 0, _foreign_currency_text(row), texts.FOREIGN_CURRENCY_NEXT)
        elif row["minor"]:
            yield MoneyHolder(
                "held_back",
                row["minor"],
                texts.QUARANTINED,
                texts.QUARANTINED_NEXT,
                transaction_id=row["id"],
            )


def _foreign_currency_text(row: dict[str, Any]) -> str:
    return texts.FOREIGN_CURRENCY.format(amount=format_amount(row["amount_minor"], row["currency"]))


def _escrow_holders(order: orders.OrderRow, transactions: list[_OrderTransaction]) -> Iterator[MoneyHolder]:
    minor = sum(transaction.net_by_account.get("escrow", 0) for transaction in transactions)
    if not minor:
        return
    why, next_step = texts.ESCROW_TEXTS.get(order.status, texts.DEFAULT_ESCROW_TEXT)
    yield MoneyHolder(
        "escrow",
        minor,
        why,
        next_step,
        by={
            states.PENDING_PAYMENT: order.expires_at,
            states.PAID_ESCROW: order.paid_at and order.paid_at + ACCEPTANCE_DEADLINE,
            states.SHIPPED: order.shipped_at and order.shipped_at + DELIVERY_DEADLINE,
        }.get(order.status),
        transaction_id=_find_last_transaction(transactions, "escrow"),
    )


def _in_transit_holders(
    refunds: list[OrderRefund], transactions: list[_OrderTransaction], waiting: set[UUID]
) -> Iterator[MoneyHolder]:
    transaction_by_source = {
        transaction.source: transaction.id for transaction in transactions if transaction.kind == "refund"
    }
    for refund in refunds:
        if refund.status in texts.IN_TRANSIT_TEXTS:
            yield MoneyHolder(
                "on_the_way_back",
                refund.amount_minor,
                *(
                    texts.CHARGEBACK_OPEN_TEXT
                    if refund.id in waiting
                    else texts.IN_TRANSIT_TEXTS[refund.status]
                ),
                transaction_id=transaction_by_source.get(f"refund:{refund.id}"),
            )


def _released_holders(transactions: list[_OrderTransaction], role: Role) -> Iterator[MoneyHolder]:
    # The vendor's debt is posted in a separate receivable account.
    vendor, platform = (
        sum(
            transaction.net_by_account.get(account, 0) - transaction.net_by_account.get(debt_account, 0)
            for transaction in transactions
        )
        for account, debt_account in (("vendor_payable", "vendor_receivable"), ("platform_revenue", ""))
    )
    if role == "buyer":
        # The platform's fees are between vendor and platform.
        vendor, platform = vendor + platform, 0
    if vendor:
        yield MoneyHolder(
            "vendor",
            vendor,
            texts.RELEASED_TO_VENDOR_LESS_FEES if role == "buyer" else texts.RELEASED_TO_VENDOR,
            texts.RELEASED_TO_VENDOR_NEXT,
            transaction_id=_find_last_transaction(transactions, "vendor_payable", "vendor_receivable"),
        )
    if platform:
        yield MoneyHolder(
            "platform",
            platform,
            texts.RELEASED_TO_PLATFORM,
            texts.RELEASED_TO_PLATFORM_NEXT,
            transaction_id=_find_last_transaction(transactions, "platform_revenue"),
        )


_REFUNDED_MEANINGS = frozenset(
    {
        "refund_sent",
        "refund_credit",
        "refund_to_wallet",
        "return_to_wallet",
        "wallet_return",
        "clawback_to_wallet",
        "chargeback",
    }
)
_REFUNDED_MEANINGS_FOR_VENDOR = frozenset(
    {"refund", "refund_to_wallet", "clawback", "clawback_to_wallet", "chargeback"}
)


def _refunded_holders(
    transactions: list[_OrderTransaction], refunds: list[OrderRefund], role: Role
) -> Iterator[MoneyHolder]:
    # For the buyer and staff, refunds count by status. Vendors see only ledger transactions.
    counted_meanings = _REFUNDED_MEANINGS_FOR_VENDOR if role == "vendor" else {"wallet_return", "chargeback"}
    minor = sum(
        transaction.amount_minor for transaction in transactions if transaction.meaning in counted_meanings
    ) + sum(
        refund.amount_minor
        for refund in refunds
        if refund.status in (payment_states.PROCESSED, payment_states.CREDITED)
    )
    if minor:
        meanings = _REFUNDED_MEANINGS_FOR_VENDOR if role == "vendor" else _REFUNDED_MEANINGS
        yield MoneyHolder(
            "buyer",
            minor,
            texts.REFUNDED_FOR_VENDOR if role == "vendor" else texts.REFUNDED,
            texts.REFUNDED_NEXT,
            transaction_id=next(
                (transaction.id for transaction in reversed(transactions) if transaction.meaning in meanings),
                None,
            ),
        )


def _timeline(
    transactions: list[_OrderTransaction], quarantined_charges: list[dict[str, Any]], role: Role
) -> list[MoneyMovement]:
    visible = [
        transaction
        for transaction in transactions
        if role != "vendor"
        or (
            transaction.net_by_account.keys() & _ACCOUNTS_VISIBLE_TO_VENDOR
            and transaction.kind != "wallet_return"
        )
    ]
    visible += [
        _OrderTransaction(row["id"], "quarantine", "", row["at"], {"quarantine": row["minor"]})
        for row in quarantined_charges
        if row["minor"]
    ]
    entries = [
        *(_timeline_entry(transaction, role) for transaction in visible),
        *(entry for row in quarantined_charges for entry in _foreign_currency_entries(row)),
    ]
    return sorted(entries, key=lambda entry: (entry.at, str(entry.transaction_id)))


def _foreign_currency_entries(row: dict[str, Any]) -> Iterator[MoneyMovement]:
    """List the movements of a payment in another currency, which has no ledger transaction."""
    if not row["foreign"]:
        return
    yield MoneyMovement(None, "quarantine", 0, row["at"], "gateway", "held_back", _foreign_currency_text(row))
    if row["resolved_at"] is not None:
        yield MoneyMovement(
            None,
            "quarantine",
            0,
            row["resolved_at"],
            "held_back",
            "buyer",
            texts.FOREIGN_CURRENCY_RETURNED,
        )


def _timeline_entry(transaction: _OrderTransaction, role: Role) -> MoneyMovement:
    movement_texts = texts.TRANSACTION_TEXTS.get(transaction.meaning, texts.DEFAULT_TRANSACTION_TEXT)
    # The vendor must not learn that a wallet paid, or that a charge was quarantined.
    kind = transaction.kind
    if role == "vendor":
        movement_texts = texts.TRANSACTION_TEXTS_FOR_VENDOR.get(transaction.meaning, movement_texts)
        kind = "payment" if kind in texts.KINDS_SHOWN_AS_PAYMENT else kind
    return MoneyMovement(transaction.id, kind, transaction.amount_minor, transaction.at, *movement_texts)
