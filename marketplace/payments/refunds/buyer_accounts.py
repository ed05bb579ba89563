"""The buyer's wallet and debt: credit unsent refunds and reclaim duplicate ones.

A refund of a payment that a bank disputes waits, because the bank may return the payment too. After a won dispute, the
refund is sent. After a lost dispute, the refund is credited to the wallet, and the amount that the bank returned is
deducted.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, lock_balances, post_transaction
from marketplace.ledger.queries import is_posted
from marketplace.notifications.operations import notify
from marketplace.payments import states, texts
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, create, notifications
from marketplace.providers.gateway.payloads import GatewayRefund

_DUPLICATE_REFUND_KIND: Final = "refund_sent_twice"
_DUPLICATE_RETURNED_KIND: Final = "refund_sent_twice_returned"
_BATCH = 500


def lock_unsent_refunds(session: Session, *, charge_ids: Sequence[UUID]) -> Sequence[Refund]:
    """Lock the unsent refunds of charges: refunds that were never requested or that the gateway reported as failed.

    :param charge_ids: ids of charges that this transaction has locked
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
    """Credit an unsent refund to the wallet, and make the amount of the charge refundable again.

    :param refund: locked together with its charge
    :param trigger: ``credit`` or ``withdraw`` of the refund's state machine
    :raises IllegalTransitionError: the refund was sent or may have been sent
    """
    refund.status = states.REFUND.target(refund.status, trigger)
    refund.settled_at = refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind="refund_credit",
        source=f"refund:{refund.id}",
        description="Unsent refund credited to the wallet",
        postings=[
            Posting(accounts.REFUNDS_IN_TRANSIT, "debit", refund.amount_minor, refund.order_id),
            Posting(accounts.wallet(refund.buyer_id), "credit", refund.amount_minor, refund.order_id),
        ],
        now=now,
    )
    alerts.resolve_refund_alerts(
        session, refund_id=refund.id, note=texts.ALERT_REFUND_RESOLVED.format(status=refund.status), now=now
    )


def credit_and_offset_debt(session: Session, refund: Refund, *, trigger: str, now: datetime) -> None:
    """Credit an unsent refund of a charged-back payment to the wallet, then offset the buyer's debt.

    :param refund: locked together with its charge
    :param trigger: ``credit`` or ``withdraw`` of the refund's state machine
    """
    buyer_id = refund.buyer_id
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    credit_unsent_refund(session, refund, trigger=trigger, now=now)
    notifications.notify_credited_after_chargeback(session, refund, now=now)
    offset_against_wallet(session, buyer_id=buyer_id, now=now)


def is_duplicate_attempt(session: Session, refund: Refund, *, attempt: int) -> bool:
    """Return whether an attempt was posted as a duplicate payment, even if that payment was reversed later."""
    return is_posted(session, kind=_DUPLICATE_REFUND_KIND, source=_ledger_source(refund, attempt))


def record_duplicate_refund(
    session: Session, refund: Refund, reported: GatewayRefund, *, attempt: int, now: datetime
) -> None:
    """Post an attempt that paid the buyer a second time, and debit the buyer.

    A repeated call for the same attempt has no effect.

    :param refund: locked together with its charge
    :param reported: the gateway's report that the attempt was sent
    """
    if is_duplicate_attempt(session, refund, attempt=attempt):
        return
    alerts.raise_refund_alert(session, "REFUND_SENT_TWICE", refund, {"sentAtTry": attempt}, now=now)
    outstanding_minor = debit_buyer_for_attempt(
        session, refund, reported, attempt=attempt, description="Duplicate refund to the buyer", now=now
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
    """Post an attempt that paid a buyer who already has the money, and debit the wallet or record a debt.

    :param refund: locked together with its charge
    :param reported: the gateway's report that the attempt was sent
    :param attempt: number of an attempt that is not posted yet
    :param description: description of the ledger transaction, visible in statements
    :return: kobo that the wallet could not cover and the buyer owes
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
    """Reverse a duplicate payment that the gateway now reports as failed.

    The wallet is credited even if the buyer still owes the amount. The debt is later offset against the wallet.

    :param refund: locked together with its charge
    :param attempt: number of an attempt that is posted as a duplicate payment
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
        note=texts.ALERT_REFUND_SENT_TWICE_RESOLVED,
        now=now,
    )
    refund.paid_twice_minor -= amount_minor
    refund.updated_at = now
    create.recalculate_refunded_total(session, charge_id=refund.charge_id)
    post_transaction(
        session,
        kind=_DUPLICATE_RETURNED_KIND,
        source=source,
        description="Duplicate refund returned to the gateway",
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
    """Build the ledger source of a duplicate payment."""
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
    """Post a gateway payment to a buyer who already had the money.

    The wallet is debited up to its balance. The rest becomes a debt in the buyer's receivable account.

    :param amount_minor: kobo that the gateway paid
    :param source: unique ledger source of the payment
    :param description: description of the ledger transaction, visible in statements
    :return: kobo that the wallet could not cover and the buyer owes
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
    """Offset buyer debts against wallet balances, each buyer in a separate transaction.

    :return: the number of buyers whose debt was reduced, at most 500 per sweep
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


# The total of earlier offsets only grows. As a part of the ledger source, the total makes each offset unique.
_SELECT_TOTAL_OFFSET = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint AS minor FROM ledger_entries
        WHERE account_id = :account_id AND direction = 'credit'
        """
    )
)


def offset_against_wallet(session: Session, *, buyer_id: UUID, now: datetime) -> bool:
    """Offset a buyer's debt against the wallet balance, and notify the buyer.

    :return: whether any amount was offset
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
        description="Debt deducted from the wallet",
        postings=[Posting(wallet, "debit", offset_minor), Posting(debt, "credit", offset_minor)],
        now=now,
    )
    outstanding_minor = balances[debt] - offset_minor
    body = texts.DEBT_COLLECTED_BODY.format(amount=format_naira(offset_minor))
    closing = (
        texts.DEBT_COLLECTED_REST.format(amount=format_naira(outstanding_minor))
        if outstanding_minor
        else texts.DEBT_COLLECTED_IN_FULL
    )
    notify(
        session,
        user_id=buyer_id,
        type="debt_collected",
        title=texts.DEBT_COLLECTED_TITLE,
        body=f"{body} {closing}",
        link="/wallet",
        cause=source,
        now=now,
    )
    return True
