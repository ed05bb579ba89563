"""Notify payees of payouts that were sent or failed, each once."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.payouts.accounting import Payout
from marketplace.payouts.models import mask_account_number

ACCOUNT_NOT_PAYABLE = "The bank account could not be paid to: the bank does not know it."
VOIDED = "The transfer could not be sent."
FAILED = "The bank did not take the transfer."
REVERSED = "The bank sent the transfer back."
NEVER_MADE = "The transfer turned out not to have been made."
ACCOUNT_REPLACED = "You gave another bank account before it was sent, so nothing went to the former one."


def notify_payout_sent(session: Session, payout: Payout, *, now: datetime) -> None:
    """Notify a payee that the payout was sent."""
    notify(
        session,
        user_id=payout.user_id,
        type="payout_sent",
        title="Your payout was sent",
        body=f"{format_naira(payout.amount_minor)} were sent to your bank account"
        f" {mask_account_number(payout.account_number)}.",
        link=_link(payout),
        cause=f"payout:{payout.id}:sent",
        now=now,
    )


def notify_payout_sent_after_all(session: Session, payout: Payout, *, owed_minor: int, now: datetime) -> None:
    """Notify a payee that a returned payout was sent after all, and of the amount that we take back.

    :param owed_minor: the part that the balance did not cover, in kobo
    """
    balance = _balance_name(payout)
    debited_minor = payout.amount_minor - owed_minor
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
        user_id=payout.user_id,
        type="payout_sent",
        title="Your payout was sent after all",
        body=f"{format_naira(payout.amount_minor)} were sent to your bank account"
        f" {mask_account_number(payout.account_number)} after all, although they were back in your {balance}:"
        f" they had reached you twice.{debited_text}{debt_text}",
        link=_link(payout),
        # It may come back once more, and be sent after all again.
        cause=f"payout:{payout.id}:sent_after_all:{payout.times_returned}",
        now=now,
    )


def notify_payout_returned(
    session: Session, payout: Payout, *, reason: str, times_returned: int, now: datetime
) -> None:
    """Notify a payee that a payout failed, with the reason and the next step.

    :param reason: one of this module's
    :param times_returned: including this time
    """
    suffix = "" if times_returned == 1 else f":{times_returned}"
    notify(
        session,
        user_id=payout.user_id,
        type="payout_failed",
        title="Your payout did not reach you",
        body=f"{format_naira(payout.amount_minor)} to your bank account"
        f" {mask_account_number(payout.account_number)}: {reason}"
        f" The money is back in your {_balance_name(payout)}. {_describe_next_step(payout, reason)}",
        link=_link(payout),
        cause=f"payout:{payout.id}:came_back{suffix}",
        now=now,
    )


def _describe_next_step(payout: Payout, reason: str) -> str:
    """Describe the next step: a balance is staged on schedule, a wallet's cash-out must be requested again."""
    next_step = (
        "ask for it to be paid out anew" if payout.vendor_id is None else "it is paid with the next payouts"
    )
    # Nothing was sent to the account, so it may be right.
    if reason in (VOIDED, ACCOUNT_REPLACED):
        return f"{next_step[0].upper()}{next_step[1:]}."
    return f"Look whether your bank account is right and can receive money, or give another one; then {next_step}."


def _balance_name(payout: Payout) -> str:
    return "wallet" if payout.vendor_id is None else "balance"


def _link(payout: Payout) -> str:
    return "/wallet" if payout.vendor_id is None else "/payouts"
