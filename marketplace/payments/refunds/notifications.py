"""Notifications about refunds, each sent once."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.orders.transitions import LockedOrder
from marketplace.payments.models import Refund

_DEBT_SENTENCE = "You owe us {}: they come off what your wallet receives next."


def notify_refund_sent(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that their money has left."""
    times_returned = refund.times_returned
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_processed",
        title="Your refund was sent again" if times_returned else "Your refund was sent",
        body=f"{format_naira(refund.amount_minor)} are on their way to where you paid from. Your bank may take a few"
        " days to show them." + (" What we had sent before came back to us." if times_returned else ""),
        link=_order_link(refund),
        cause=f"refund:{refund.id}:processed" + (f":{times_returned}" if times_returned else ""),
        now=now,
    )


def notify_refund_delayed(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that it takes longer; what is wrong is for finance to mend."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_delayed",
        title="Your refund takes longer",
        body=f"{format_naira(refund.amount_minor)} could not be sent to where you paid from yet. Our finance"
        " officers look into it: they have it sent again, or put it into your wallet. You need not do anything.",
        link=_order_link(refund),
        cause=f"refund:{refund.id}:delayed",
        now=now,
    )


def notify_refund_waiting_for_bank(
    session: Session, refund: Refund, *, dispute_id: UUID, now: datetime
) -> None:
    """Notify the buyer that their money is not sent while their bank is asked to give it back.

    :param dispute_id: ours
    """
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_delayed",
        title="Your refund waits for your bank",
        body="Your bank was asked to give a payment back. Until it has decided, we do not send you"
        f" {format_naira(refund.amount_minor)} of it as well. If your bank does not give them back, we do.",
        link=_order_link(refund),
        cause=f"refund:{refund.id}:waits:{dispute_id}",
        now=now,
    )


def notify_refund_credited(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that their wallet has what could not be sent."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title="Your refund is in your wallet",
        body=f"{format_naira(refund.amount_minor)} could not be sent to where you paid from. They are in"
        " your wallet.",
        link="/wallet",
        cause=f"refund:{refund.id}:credited",
        now=now,
    )


def notify_credited_after_chargeback(session: Session, refund: Refund, *, now: datetime) -> None:
    """Notify the buyer that their money is not sent: their bank gave the payment back."""
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title="Your refund is in your wallet",
        body=f"Your bank gave the payment back, so {format_naira(refund.amount_minor)} of it are not sent to"
        " where you paid from as well. They are in your wallet, and what you owe us for that payment comes off it.",
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
    """Notify the buyer of the effect of a chargeback on our refunds of the payment.

    Without such refunds the buyer is notified by the bank alone.

    :param dispute_id: ours
    :param returned_by_bank_minor: kobo that the bank returned
    :param cancelled_refunds_minor: kobo of refunds that are not sent any more
    :param kept_in_wallet_minor: the part of them that is in the wallet, because the bank returned less
    :param paid_by_wallet_minor: kobo of duplicate money that the wallet gave back
    :param outstanding_minor: kobo of duplicate money that the buyer owes
    """
    duplicate_minor = paid_by_wallet_minor + outstanding_minor
    if not cancelled_refunds_minor and not duplicate_minor:
        return
    notify(
        session,
        user_id=buyer_id,
        type="payment_taken_back",
        title="Your bank gave you a payment back",
        body=f"Your bank gave you {format_naira(returned_by_bank_minor)} of a payment back."
        + sentences_with_amount(
            (cancelled_refunds_minor, "So {} of it are not sent by us as well."),
            (kept_in_wallet_minor, "{} that your bank did not give are in your wallet."),
            (duplicate_minor, "{} you had got from us before."),
            (paid_by_wallet_minor, "{} were taken from your wallet for them."),
            (outstanding_minor, _DEBT_SENTENCE),
        ),
        link="/wallet",
        cause=f"charge-dispute:{dispute_id}:taken-back",
        now=now,
    )


def notify_duplicate_refund(
    session: Session, refund: Refund, *, amount_minor: int, outstanding_minor: int, source: str, now: datetime
) -> None:
    """Notify the buyer that they got money twice, what of it the wallet gave back, what they owe.

    :param amount_minor: kobo that came once more
    :param outstanding_minor: kobo of it that the wallet could not give
    :param source: names the payment that came once more
    """
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_paid_twice",
        title="A refund reached you twice",
        body=f"{format_naira(amount_minor)} were sent to where you paid from, although you had got them back already."
        + sentences_with_amount(
            (amount_minor - outstanding_minor, "{} were taken from your wallet for it."),
            (outstanding_minor, _DEBT_SENTENCE),
        ),
        link="/wallet",
        cause=f"{source}:paid_twice",
        now=now,
    )


def notify_refund_amount_mismatch(
    session: Session, refund: Refund, *, sent_minor: int, outstanding_minor: int, now: datetime
) -> None:
    """Notify the buyer that a refund was sent with another amount, and where the difference is.

    :param sent_minor: kobo that were sent
    :param outstanding_minor: kobo that were too much, and that the wallet could not give
    """
    difference_minor = sent_minor - refund.amount_minor
    notify(
        session,
        user_id=refund.buyer_id,
        type="refund_processed",
        title="Your refund was sent with another amount",
        body=f"{format_naira(sent_minor)} were sent to where you paid from, not {format_naira(refund.amount_minor)}."
        + sentences_with_amount(
            (-difference_minor, "The other {} are in your wallet."),
            (
                difference_minor - outstanding_minor,
                "{} of what was too much were taken from your wallet.",
            ),
            (outstanding_minor, _DEBT_SENTENCE),
        ),
        link=_order_link(refund),
        cause=f"refund:{refund.id}:otherwise",
        now=now,
    )


def notify_duplicate_refund_returned(
    session: Session, refund: Refund, *, amount_minor: int, source: str, now: datetime
) -> None:
    """Notify the buyer that what was taken back from them came back, and that they have it again.

    :param amount_minor: kobo that came back
    :param source: names the payment that came back
    """
    notify(
        session,
        user_id=refund.buyer_id,
        type="wallet_credited",
        title="A refund that was sent to you came back",
        body=f"{format_naira(amount_minor)} that were sent to where you paid from came back to us. They are in your"
        " wallet, and what you owe for them comes off it.",
        link="/wallet",
        cause=f"{source}:returned",
        now=now,
    )


def vendor_debt_message(vendor_minor: int, total_debt_minor: int) -> str:
    """Describe the vendor's share of a clawback and the vendor's total debt.

    :param vendor_minor: kobo of this one
    :param total_debt_minor: kobo in all
    """
    if not vendor_minor:
        return "You had given back all that you had of it: this part is ours."
    return (
        f"{format_naira(vendor_minor)} of it are yours to bear. In all you owe {format_naira(total_debt_minor)},"
        " which is taken from your next payouts."
    )


def notify_parties_of_clawback(
    session: Session, order: LockedOrder, bodies: Mapping[UUID, str], *, cause: str, now: datetime
) -> None:
    """Notify the parties of an order that released money of it was refunded.

    :param bodies: what each is told
    :param cause: names it once and for all
    """
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=user_id,
                type="order_clawed_back",
                title="A delivered order was refunded",
                body=body,
                link=f"/orders/{order.id}",
                cause=cause,
            )
            for user_id, body in bodies.items()
        ],
        now=now,
    )


def sentences_with_amount(*sentences: tuple[int, str]) -> str:
    """Join the sentences whose amount in kobo is more than 0."""
    return "".join(
        f" {sentence.format(format_naira(amount_minor))}"
        for amount_minor, sentence in sentences
        if amount_minor > 0
    )


def _order_link(refund: Refund) -> str | None:
    return f"/orders/{refund.order_id}" if refund.order_id else None
