"""Notifications about refunds, each sent once."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.notifications.phrases import say
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import texts
from marketplace.payments.models import Refund


def notify_refund_sent(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that the gateway sent the refund."""
    times_returned = refund.times_returned
    body = [say(texts.REFUND_SENT_BODY, amount=format_naira(refund.amount_minor))]
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_processed",
        title=say(texts.REFUND_SENT_AGAIN_TITLE if times_returned else texts.REFUND_SENT_TITLE),
        body=[*body, say(texts.REFUND_SENT_AGAIN_REASON)] if times_returned else body,
        link=_order_link(refund),
        cause=f"refund:{refund.id}:processed" + (f":{times_returned}" if times_returned else ""),
        now=now,
    )


def notify_refund_delayed(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that the refund is delayed and that finance takes care of the problem."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_delayed",
        title=texts.REFUND_DELAYED_TITLE,
        body=texts.REFUND_DELAYED_BODY.format(amount=format_naira(refund.amount_minor)),
        link=_order_link(refund),
        cause=f"refund:{refund.id}:delayed",
        now=now,
    )


def notify_refund_waiting_for_bank(
    session: Session, refund: Refund, *, dispute_id: UUID, now: datetime
) -> None:
    """Notify the buyer that the refund waits until the bank has decided a dispute of the payment."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_delayed",
        title=texts.REFUND_WAITING_TITLE,
        body=texts.REFUND_WAITING_BODY.format(amount=format_naira(refund.amount_minor)),
        link=_order_link(refund),
        cause=f"refund:{refund.id}:waits:{dispute_id}",
        now=now,
    )


def notify_refund_credited(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that the wallet was credited because the refund could not be sent."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title=say(texts.REFUND_CREDITED_TITLE),
        body=say(texts.REFUND_CREDITED_BODY, amount=format_naira(refund.amount_minor)),
        link="/wallet",
        cause=f"refund:{refund.id}:credited",
        now=now,
    )


def notify_credited_after_chargeback(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that the refund is in the wallet because the bank returned the payment."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title=texts.REFUND_CREDITED_TITLE,
        body=texts.REFUND_CREDITED_AFTER_CHARGEBACK_BODY.format(amount=format_naira(refund.amount_minor)),
        link="/wallet",
        cause=f"refund:{refund.id}:withdrawn",
        now=now,
    )


def notify_charged_back(
    session: Session,
    *,
    buyer_id: UUID,
    dispute_id: UUID,
    returned_by_bank_minor: int,
    cancelled_refunds_minor: int,
    kept_in_wallet_minor: int,
    paid_by_wallet_minor: int,
    outstanding_minor: int,
    now: datetime,
) -> None:
    """Notify the buyer of the effect of a lost chargeback on refunds of the payment.

    Without such refunds, only the bank notifies the buyer.

    :param returned_by_bank_minor: kobo that the bank returned
    :param cancelled_refunds_minor: kobo of cancelled refunds that were not sent yet
    :param kept_in_wallet_minor: kobo of the cancelled refunds that stay in the wallet, because the bank returned less
    :param paid_by_wallet_minor: kobo of duplicate money that was taken from the wallet
    :param outstanding_minor: kobo of duplicate money that the buyer owes
    """
    duplicate_minor = paid_by_wallet_minor + outstanding_minor
    if not cancelled_refunds_minor and not duplicate_minor:
        return
    notify(
        session,
        user_id=buyer_id,
        type="payment_taken_back",
        title=texts.CHARGED_BACK_TITLE,
        body=texts.CHARGED_BACK_BODY.format(amount=format_naira(returned_by_bank_minor))
        + sentences_with_amount(
            (cancelled_refunds_minor, texts.CHARGED_BACK_REFUNDS_CANCELLED),
            (kept_in_wallet_minor, texts.CHARGED_BACK_KEPT_IN_WALLET),
            (duplicate_minor, texts.CHARGED_BACK_DUPLICATE),
            (paid_by_wallet_minor, texts.CHARGED_BACK_DEBITED),
            (outstanding_minor, texts.BUYER_DEBT),
        ),
        link="/wallet",
        cause=f"charge-dispute:{dispute_id}:taken-back",
        now=now,
    )


def notify_duplicate_refund(
    session: Session, refund: Refund, *, amount_minor: int, outstanding_minor: int, source: str, now: datetime
) -> None:
    """Notify the buyer of a duplicate refund, the amount taken from the wallet and the remaining debt.

    :param amount_minor: kobo of the duplicate payment
    :param outstanding_minor: kobo of the duplicate payment that the wallet could not cover
    :param source: ledger source of the duplicate payment
    """
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_paid_twice",
        title=texts.DUPLICATE_REFUND_TITLE,
        body=texts.DUPLICATE_REFUND_BODY.format(amount=format_naira(amount_minor))
        + sentences_with_amount(
            (amount_minor - outstanding_minor, texts.DUPLICATE_REFUND_DEBITED),
            (outstanding_minor, texts.BUYER_DEBT),
        ),
        link="/wallet",
        cause=f"{source}:paid_twice",
        now=now,
    )


def notify_refund_amount_mismatch(
    session: Session, refund: Refund, *, sent_minor: int, outstanding_minor: int, now: datetime
) -> None:
    """Notify the buyer of a refund that was sent with another amount, and of the difference.

    :param sent_minor: kobo that the gateway sent
    :param outstanding_minor: kobo of the excess that the wallet could not cover
    """
    difference_minor = sent_minor - refund.amount_minor
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_processed",
        title=texts.REFUND_AMOUNT_MISMATCH_TITLE,
        body=texts.REFUND_AMOUNT_MISMATCH_BODY.format(
            sent_amount=format_naira(sent_minor), expected_amount=format_naira(refund.amount_minor)
        )
        + sentences_with_amount(
            (-difference_minor, texts.REFUND_AMOUNT_MISMATCH_REST),
            (difference_minor - outstanding_minor, texts.REFUND_AMOUNT_MISMATCH_DEBITED),
            (outstanding_minor, texts.BUYER_DEBT),
        ),
        link=_order_link(refund),
        cause=f"refund:{refund.id}:otherwise",
        now=now,
    )


def notify_duplicate_refund_returned(
    session: Session, refund: Refund, *, amount_minor: int, source: str, now: datetime
) -> None:
    """Notify the buyer that a duplicate refund did not arrive and that the wallet was credited again.

    :param amount_minor: kobo that came back to the gateway
    :param source: ledger source of the duplicate payment
    """
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title=texts.DUPLICATE_REFUND_RETURNED_TITLE,
        body=texts.DUPLICATE_REFUND_RETURNED_BODY.format(amount=format_naira(amount_minor)),
        link="/wallet",
        cause=f"{source}:returned",
        now=now,
    )


def vendor_debt_message(vendor_minor: int, total_debt_minor: int) -> str:
    """Describe the vendor's share of a clawback and the vendor's total debt.

    :param vendor_minor: kobo of this clawback
    :param total_debt_minor: kobo of all clawbacks
    """
    if not vendor_minor:
        return texts.VENDOR_FULLY_CLAWED_BACK
    return texts.VENDOR_CLAWBACK_SHARE.format(
        share=format_naira(vendor_minor), total_debt=format_naira(total_debt_minor)
    )


def notify_parties_of_clawback(
    session: Session, order: LockedOrder, bodies: Mapping[UUID, str], *, cause: str, now: datetime
) -> None:
    """Notify parties of an order that money was refunded after its release.

    :param bodies: notification bodies by user id
    :param cause: unique key of the clawback
    """
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="order_clawed_back",
                title=texts.DELIVERED_ORDER_REFUNDED_TITLE,
                body=body,
                link=f"/orders/{order.id}",
                cause=cause,
            )
            for user_id, body in bodies.items()
        ],
        now=now,
    )


def sentences_with_amount(*sentences: tuple[int, str]) -> str:
    """Format the sentences with a positive amount in kobo, each with a leading space."""
    return "".join(
        f" {sentence.format(amount=format_naira(amount_minor))}"
        for amount_minor, sentence in sentences
        if amount_minor > 0
    )


def _order_link(refund: Refund) -> str | None:
    return f"/orders/{refund.order_id}" if refund.order_id else None
