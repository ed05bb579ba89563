"""What a payee is told of a payout that was sent, or went wrong: in plain words, each once."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.payouts.models import mask_account_number

ACCOUNT_NOT_PAYABLE = "The bank account could not be paid to: the bank does not know it."
VOIDED = "The transfer could not be sent."
FAILED = "The bank did not take the transfer."
REVERSED = "The bank sent the transfer back."
NEVER_MADE = "The transfer turned out not to have been made."
ACCOUNT_REPLACED = "You gave another bank account before it was sent, so nothing went to the former one."


def notify_payout_sent(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    """Tell a payee that their money has left.

    :param row: the payout with its payee, amount and account
    """
    notify(
        session,
        user_id=row["user_id"],
        type="payout_sent",
        title="Your payout was sent",
        body=f"{format_naira(row['amount_minor'])} were sent to your bank account"
        f" {mask_account_number(row['account_number'])}.",
        link=_link(row),
        cause=f"payout:{row['id']}:sent",
        now=now,
    )


def notify_payout_sent_after_all(
    session: Session, row: dict[str, Any], *, owed_minor: int, now: datetime
) -> None:
    """Tell a payee that a payout has left whose money was theirs again, and who gives that back.

    :param row: the payout with its payee, amount and account
    :param owed_minor: kobo that their balance did not have any more
    """
    balance = _balance_name(row)
    debited_minor = row["amount_minor"] - owed_minor
    debited_text = (
        f" {format_naira(debited_minor)} were taken from your {balance} again." if debited_minor else ""
    )
    debt_text = (
        f" You owe us {format_naira(owed_minor)}, taken from what your {balance} gets next."
        if owed_minor
        else ""
    )
    notify(
        session,
        user_id=row["user_id"],
        type="payout_sent",
        title="Your payout was sent after all",
        body=f"{format_naira(row['amount_minor'])} were sent to your bank account"
        f" {mask_account_number(row['account_number'])} after all, although they were back in your {balance}:"
        f" they had reached you twice.{debited_text}{debt_text}",
        link=_link(row),
        # It may come back once more, and be sent after all again.
        cause=f"payout:{row['id']}:sent_after_all:{row['times_returned']}",
        now=now,
    )


def notify_payout_returned(
    session: Session, row: dict[str, Any], *, reason: str, times_returned: int, now: datetime
) -> None:
    """Tell a payee that a payout did not reach them, why, and what to do.

    :param row: the payout with its payee, amount and account
    :param reason: one of this module's
    :param times_returned: how often it has come back by now
    """
    suffix = "" if times_returned == 1 else f":{times_returned}"
    notify(
        session,
        user_id=row["user_id"],
        type="payout_failed",
        title="Your payout did not reach you",
        body=f"{format_naira(row['amount_minor'])} to your bank account"
        f" {mask_account_number(row['account_number'])}: {reason}"
        f" The money is back in your {_balance_name(row)}. {_describe_next_step(row, reason)}",
        link=_link(row),
        cause=f"payout:{row['id']}:came_back{suffix}",
        now=now,
    )


def _describe_next_step(row: dict[str, Any], reason: str) -> str:
    """Tell how what came back is paid: a balance is staged by itself, a wallet's money has to be asked for."""
    next_step = (
        "ask for it to be paid out anew" if row["vendor_id"] is None else "it is paid with the next payouts"
    )
    # Of an account that nothing was sent to there is nothing to look for.
    if reason in (VOIDED, ACCOUNT_REPLACED):
        return f"{next_step[0].upper()}{next_step[1:]}."
    return f"Look whether your bank account is right and can receive money, or give another one; then {next_step}."


def _balance_name(row: dict[str, Any]) -> str:
    return "wallet" if row["vendor_id"] is None else "balance"


def _link(row: dict[str, Any]) -> str:
    return "/wallet" if row["vendor_id"] is None else "/payouts"
