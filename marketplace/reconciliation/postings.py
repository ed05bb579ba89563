"""Booking what the gateway alone knows of: a movement of what it holds, against another account of ours."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account, Side
from marketplace.ledger.operations import Posting, post_transaction


def post_gateway_movement(
    session: Session,
    *,
    kind: str,
    source: str,
    description: str,
    amount_minor: int,
    counter_account: Account,
    now: datetime,
) -> UUID:
    """Book a movement of what the gateway holds against another account of ours.

    :param amount_minor: kobo; below zero for what the gateway holds less
    :param counter_account: where it came from, or went to
    :return: the transaction's id
    :raises AlreadyPostedError: it is booked
    """
    sides: tuple[Side, Side] = ("debit", "credit") if amount_minor > 0 else ("credit", "debit")
    return post_transaction(
        session,
        kind=kind,
        source=source,
        description=description,
        postings=[
            Posting(account, side, abs(amount_minor))
            for account, side in zip((accounts.GATEWAY_CLEARING, counter_account), sides, strict=True)
        ],
        now=now,
    )
