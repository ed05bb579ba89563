"""The buyer's wallet and debt: credit refunds that the gateway has not sent, and reclaim those sent twice.

A buyer's bank that gives a payment back gives back what we were about to: sent as well, it would reach the buyer
twice. So such refunds wait. When the dispute is won they are sent; when it is lost they go to the wallet, out of which
what the bank gave is taken.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.batches import process_each
from marketplace.infra.db import Database, Statement
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.ledger.queries import is_posted
from marketplace.notifications.operations import notify
from marketplace.payments import states
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, create, notifications
from marketplace.providers.gateway.payloads import GatewayRefund

_DUPLICATE_REFUND_KIND = "refund_sent_twice"
_DUPLICATE_RETURNED_KIND = "refund_sent_twice_returned"
_BATCH = 500


def lock_unsent_refunds(session: Session, *, charge_ids: Sequence[UUID]) -> Sequence[Refund]:
    """Lock the refunds of charges that were certainly not sent: never requested, or reported as failed.

    :param charge_ids: of charges that are locked in this transaction
    """
    return session.scalars(
        select(Refund)
        .where(
            Refund.charge_id.in_(charge_ids),
            (Refund.status == states.FAILED)
            | ((Refund.status == states.PENDING) & Refund.asked_at.is_(None)),
        )
        .order_by(Refund.id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).all()


def credit_unsent_refund(session: Session, refund: Refund, *, trigger: str, now: datetime) -> None:
    """Credit an unsent refund to the wallet; its charge can be refunded by that much again.

    :param refund: locked, and its charge too
    :param trigger: of the table of refunds
    :raises IllegalTransitionError: the refund was sent, or may be
    """
    refund.status = states.REFUND.target(refund.status, trigger)
    refund.settled_at = refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind="refund_credit",
        source=f"refund:{refund.id}",
        description="Refund that was not sent credited to the wallet",
        postings=[
            Posting(accounts.REFUNDS_IN_TRANSIT, "debit", refund.amount_minor, refund.order_id),
            Posting(accounts.wallet(refund.buyer_id), "credit", refund.amount_minor, refund.order_id),
        ],
        now=now,
    )
    alerts.resolve_refund_alerts(
        session, refund_id=refund.id, note=f"The refund is {refund.status}.", now=now
    )


def credit_and_offset_debt(session: Session, refund: Refund, *, trigger: str, now: datetime) -> None:
    """Credit an unsent refund of a charged-back payment to the wallet, and offset the buyer's debt for it.

    :param refund: locked, and its charge too
    :param trigger: of the table of refunds
    """
    buyer_id = refund.buyer_id
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    credit_unsent_refund(session, refund, trigger=trigger, now=now)
    notifications.notify_credited_after_chargeback(session, refund, now=now)
    offset_against_wallet(session, buyer_id=buyer_id, now=now)


def is_duplicate_attempt(session: Session, refund: Refund, *, attempt: int) -> bool:
    """Tell whether an attempt was posted as a duplicate payment, whatever its status is now."""
    return is_posted(session, kind=_DUPLICATE_REFUND_KIND, source=_ledger_source(refund, attempt))


def record_duplicate_refund(
    session: Session, refund: Refund, reported: GatewayRefund, *, attempt: int, now: datetime
) -> None:
    """Book what the gateway paid although the buyer has the money, and ask it back of them.

    It does so once for each try.

    :param refund: locked, and its charge too
    :param reported: the gateway's word that it was sent
    :param attempt: which try it was
    """
    if is_duplicate_attempt(session, refund, attempt=attempt):
        return
    alerts.raise_refund_alert(session, "REFUND_SENT_TWICE", refund, {"sentAtTry": attempt}, now=now)
    outstanding_minor = debit_buyer_for_attempt(
        session, refund, reported, attempt=attempt, description="Refund that reached its buyer twice", now=now
    )
    notifications.notify_duplicate_refund(
        session,
        refund,
        amount_minor=reported.amount_minor,
        outstanding_minor=outstanding_minor,
        source=_ledger_source(refund, attempt),
        now=now,
    )


def debit_buyer_for_attempt(
    session: Session,
    refund: Refund,
    reported: GatewayRefund,
    *,
    attempt: int,
    description: str,
    now: datetime,
) -> int:
    """Book what a try paid a buyer who has the money, and take it from their wallet, or claim it.

    :param refund: locked, and its charge too
    :param reported: the gateway's word that it was sent
    :param attempt: which try it was; it is not booked
    :param description: for statements
    :return: kobo that the buyer owes of it
    """
    refund.paid_twice_minor += reported.amount_minor
    refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    return record_overpayment(
        session,
        buyer_id=refund.buyer_id,
        order_id=refund.order_id,
        amount_minor=reported.amount_minor,
        source=_ledger_source(refund, attempt),
        description=description,
        now=now,
    )


_SELECT_POSTED_AMOUNT = Statement(
    text(
        """
        SELECT e.amount_minor FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
        WHERE t.kind = :kind AND t.source = :source AND e.account_id = :account_id AND e.direction = 'credit'
        """
    )
)


def reverse_duplicate_refund(session: Session, refund: Refund, *, attempt: int, now: datetime) -> None:
    """Give back what was asked back of a buyer, the try that was paid twice having come back.

    It goes to the wallet, whether the wallet gave it or it is owed still: a debt is set off against it.

    :param refund: locked, and its charge too
    :param attempt: which try it was; it is booked as paid twice
    """
    source = _ledger_source(refund, attempt)
    if is_posted(session, kind=_DUPLICATE_RETURNED_KIND, source=source):
        return
    amount_minor: int = _SELECT_POSTED_AMOUNT.scalar(
        session, kind=_DUPLICATE_REFUND_KIND, source=source, account_id=accounts.GATEWAY_CLEARING.id
    )
    alerts.resolve_refund_alerts(
        session,
        refund_id=refund.id,
        identifiers="REFUND_SENT_TWICE",
        note="The money came back to the gateway.",
        now=now,
    )
    refund.paid_twice_minor -= amount_minor
    refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind=_DUPLICATE_RETURNED_KIND,
        source=source,
        description="Refund that had reached its buyer twice came back",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", amount_minor, refund.order_id),
            Posting(accounts.wallet(refund.buyer_id), "credit", amount_minor, refund.order_id),
        ],
        now=now,
    )
    notifications.notify_duplicate_refund_returned(
        session, refund, amount_minor=amount_minor, source=source, now=now
    )


def _ledger_source(refund: Refund, attempt: int) -> str:
    """Name a try at a refund that its buyer had the money of, for the books."""
    return f"refund:{refund.id}:{attempt}"


def record_overpayment(
    session: Session,
    *,
    buyer_id: UUID,
    order_id: UUID | None,
    amount_minor: int,
    source: str,
    description: str,
    now: datetime,
) -> int:
    """Book what the gateway paid a buyer who had the money already.

    It has left the gateway, so the books say so; the wallet gives back what it has, and the rest is a debt in an
    account of the buyer's own.

    :param amount_minor: kobo that the gateway paid
    :param source: names the payment once and for all
    :param description: for statements
    :return: kobo that the wallet could not give, and the buyer owes
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    paid_by_wallet_minor = min(amount_minor, lock_balances(session, accounts=[wallet, debt])[wallet])
    outstanding_minor = amount_minor - paid_by_wallet_minor
    post_transaction(
        session,
        kind=_DUPLICATE_REFUND_KIND,
        source=source,
        description=description,
        postings=[
            *(
                Posting(account, "debit", minor, order_id)
                for account, minor in ((wallet, paid_by_wallet_minor), (debt, outstanding_minor))
                if minor
            ),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount_minor, order_id),
        ],
        now=now,
    )
    return outstanding_minor


_SELECT_BUYERS_TO_OFFSET = Statement(
    text(
        """
        SELECT d.owner_id AS buyer_id FROM ledger_accounts d
            JOIN ledger_accounts w ON w.kind = 'wallet' AND w.owner_id = d.owner_id
        WHERE d.kind = 'buyer_receivable' AND d.balance_minor > 0 AND w.balance_minor > 0
        ORDER BY d.owner_id LIMIT :limit
        """
    )
)


def offset_buyer_debts(database: Database, *, now: datetime) -> int:
    """Set off what buyers owe against what their wallets have received since, each by itself.

    :return: how many buyers paid something; at most 500 in one sweep
    """
    with database.reading() as session:
        buyer_ids = _SELECT_BUYERS_TO_OFFSET.scalars(session, limit=_BATCH)
    return sum(
        process_each(
            buyer_ids,
            lambda buyer_id: database.in_transaction(offset_against_wallet, buyer_id=buyer_id, now=now),
            failure="debt not collected",
        )
    )


# What was set off before only grows, so it tells one set-off of a buyer's from the next.
_SELECT_TOTAL_OFFSET = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint AS minor FROM ledger_entries
        WHERE account_id = :account_id AND direction = 'credit'
        """
    )
)


def offset_against_wallet(session: Session, *, buyer_id: UUID, now: datetime) -> bool:
    """Set off what a buyer owes against what their wallet has, and tell them.

    :return: whether there was anything to set off
    """
    wallet, debt = accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)
    balances = lock_balances(session, accounts=[wallet, debt])
    offset_minor = min(balances[wallet], balances[debt])
    if not offset_minor:
        return False
    source = f"debt:{buyer_id}:{_SELECT_TOTAL_OFFSET.scalar(session, account_id=debt.id)}"
    post_transaction(
        session,
        kind="debt_collected",
        source=source,
        description="What had reached the buyer twice, given back by the wallet",
        postings=[Posting(wallet, "debit", offset_minor), Posting(debt, "credit", offset_minor)],
        now=now,
    )
    outstanding_minor = balances[debt] - offset_minor
    closing = (
        f" {format_naira(outstanding_minor)} are still owed."
        if outstanding_minor
        else " Nothing is owed any more."
    )
    notify(
        session,
        user_id=buyer_id,
        type="debt_collected",
        title="Your wallet gave back what had reached you twice",
        body=f"{format_naira(offset_minor)} were taken from your wallet for money that had reached you twice.{closing}",
        link="/wallet",
        cause=source,
        now=now,
    )
    return True
