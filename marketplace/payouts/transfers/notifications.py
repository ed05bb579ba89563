"""Notify payees of sent and failed payouts, once each."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import say
from marketplace.payouts import texts
from marketplace.payouts.accounting import Payout
from marketplace.payouts.models import mask_account_number


def notify_payout_sent(session: Session, payout: Payout, *, now: datetime) -> None:
    """Notify a payee of a sent payout."""
    notify(
        session,
        user_id=payout.user_id,
        type="payout_sent",
        title=say(texts.PAYOUT_SENT_TITLE),
        body=say(
            texts.PAYOUT_SENT_BODY,
            amount=format_naira(payout.amount_minor),
            account_number=mask_account_number(payout.account_number),
        ),
        link=_link(payout),
        cause=f"payout:{payout.id}:sent",
        now=now,
    )


def notify_payout_sent_after_all(session: Session, payout: Payout, *, owed_minor: int, now: datetime) -> None:
    """Notify a payee that a returned payout was sent after all, and of the deducted and owed amounts.

    :param owed_minor: the part that the balance did not cover, in kobo
    """
    if payout.vendor_id is None:
        body, deducted, owed = (
            texts.PAYOUT_SENT_AFTER_RETURN_BODY_WALLET,
            texts.RETURNED_AMOUNT_DEDUCTED_WALLET,
            texts.RETURNED_AMOUNT_OWED_WALLET,
        )
    else:
        body, deducted, owed = (
            texts.PAYOUT_SENT_AFTER_RETURN_BODY_STORE,
            texts.RETURNED_AMOUNT_DEDUCTED_STORE,
            texts.RETURNED_AMOUNT_OWED_STORE,
        )
    parts = ((deducted, payout.amount_minor - owed_minor), (owed, owed_minor))
    sentences = [sentence.format(amount=format_naira(minor)) for sentence, minor in parts if minor]
    notify(
        session,
        user_id=payout.user_id,
        type="payout_sent",
        title=texts.PAYOUT_SENT_AFTER_RETURN_TITLE,
        body=" ".join((_fill(body, payout), *sentences)),
        link=_link(payout),
        # A payout may be returned and sent after all repeatedly.
        cause=f"payout:{payout.id}:sent_after_all:{payout.times_returned}",
        now=now,
    )


def notify_payout_returned(
    session: Session, payout: Payout, *, reason: str, times_returned: int, now: datetime
) -> None:
    """Notify a payee of a failed payout, with the reason and the next step.

    :param reason: one of ``texts.FAILED_*``
    :param times_returned: including this time
    """
    suffix = "" if times_returned == 1 else f":{times_returned}"
    body = texts.PAYOUT_FAILED_BODY_WALLET if payout.vendor_id is None else texts.PAYOUT_FAILED_BODY_STORE
    notify(
        session,
        user_id=payout.user_id,
        type="payout_failed",
        title=texts.PAYOUT_FAILED_TITLE,
        body=" ".join((_fill(body, payout, reason=reason), *_next_steps(payout, reason))),
        link=_link(payout),
        cause=f"payout:{payout.id}:came_back{suffix}",
        now=now,
    )


def _next_steps(payout: Payout, reason: str) -> list[str]:
    """List the next steps after a failure. Balances are staged again on schedule, but wallets are not."""
    retry = texts.REQUEST_PAYOUT_AGAIN if payout.vendor_id is None else texts.RETRIED_WITH_NEXT_BATCH
    # Nothing was sent to the account, so the account may be correct.
    if reason in (texts.FAILED_VOIDED, texts.FAILED_ACCOUNT_REPLACED):
        return [retry]
    return [texts.CHECK_BANK_ACCOUNT, retry]


def _fill(template: str, payout: Payout, **values: str) -> str:
    return template.format(
        amount=format_naira(payout.amount_minor),
        account_number=mask_account_number(payout.account_number),
        **values,
    )


def _link(payout: Payout) -> str:
    return "/wallet" if payout.vendor_id is None else "/payouts"
