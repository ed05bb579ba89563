"""What a buyer is told of a refund that the gateway sends: in plain words, each once."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.kernel.money import naira_text
from marketplace.notifications.operations import notify
from marketplace.payments.debts import Claim


def sent(session: Session, refund: dict[str, Any], *, now: datetime) -> None:
    """This function will tell the buyer that their money has left.

    :param refund: its id, buyer, order and amount, and how often it was sent before and came back
    """
    again = refund["times_returned"]
    before = " What we had sent before came back to us." if again else ""
    notify(
        session,
        user_id=refund["buyer_id"],
        type="refund_processed",
        title="Your refund was sent again" if again else "Your refund was sent",
        body=f"{naira_text(refund['amount_minor'])} are on their way to where you paid from. Your bank may take a few"
        f" days to show them.{before}",
        link=_link(refund),
        cause=f"refund:{refund['id']}:processed" + (f":{again}" if again else ""),
        now=now,
    )


def delayed(session: Session, refund: dict[str, Any], *, now: datetime) -> None:
    """This function will tell the buyer that it takes longer; what is wrong is for finance to mend.

    :param refund: its id, buyer, order and amount
    """
    notify(
        session,
        user_id=refund["buyer_id"],
        type="refund_delayed",
        title="Your refund takes longer",
        body=f"{naira_text(refund['amount_minor'])} could not be sent to where you paid from yet. Our finance"
        " officers look into it: they have it sent again, or put it into your wallet. You need not do anything.",
        link=_link(refund),
        cause=f"refund:{refund['id']}:delayed",
        now=now,
    )


def paid_twice(
    session: Session,
    refund: dict[str, Any],
    claim: Claim,
    *,
    amount_minor: int,
    source: str,
    now: datetime,
) -> None:
    """This function will tell the buyer that they got money twice, what of it the wallet gave back, what they owe.

    :param refund: its buyer
    :param claim: what was booked
    :param amount_minor: kobo that came once more
    :param source: names the payment that came once more
    """
    taken = (
        f" {naira_text(claim.taken_minor)} were taken from your wallet for it." if claim.taken_minor else ""
    )
    owed = (
        f" You owe us {naira_text(claim.owed_minor)}: they come off what your wallet receives next."
        if claim.owed_minor
        else ""
    )
    notify(
        session,
        user_id=refund["buyer_id"],
        type="refund_paid_twice",
        title="A refund reached you twice",
        body=f"{naira_text(amount_minor)} were sent to where you paid from, although you had got them back"
        f" already.{taken}{owed}",
        link="/wallet",
        cause=f"{source}:paid_twice",
        now=now,
    )


def came_back(
    session: Session, refund: dict[str, Any], *, amount_minor: int, source: str, now: datetime
) -> None:
    """This function will tell the buyer that what reached them twice did not, and that they have it again.

    :param refund: its buyer
    :param amount_minor: kobo that came back
    :param source: names the payment that came back
    """
    notify(
        session,
        user_id=refund["buyer_id"],
        type="wallet_credited",
        title="A refund did not reach you twice after all",
        body=f"{naira_text(amount_minor)} that were sent to where you paid from came back to us. They are in your"
        " wallet, and what you owe for them comes off it.",
        link="/wallet",
        cause=f"{source}:returned",
        now=now,
    )


def _link(refund: dict[str, Any]) -> str | None:
    return f"/orders/{refund['order_id']}" if refund["order_id"] else None
