"""Rewards of referrals: terms, caps and postings.

All checks of caps and postings of rewards run one after the other, under an advisory lock. Callers take the lock after
the newcomer's profile and before ledger balances.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.notifications.operations import notify
from marketplace.platform.queries import fetch_platform_settings
from marketplace.referrals import texts
from marketplace.referrals.models import Referral
from marketplace.referrals.states import Rejection

CAP_PERIOD = timedelta(days=30)
Receiver = Literal["newcomer", "referrer"]

_LOCK_REWARDS = Statement(text("SELECT pg_advisory_xact_lock(hashtext('referrals'))"))


def lock_rewards(session: Session) -> None:
    """Lock all rewards until the transaction ends, so that concurrent rewards cannot exceed a cap together."""
    _LOCK_REWARDS.run(session)


@dataclass(frozen=True)
class Terms:
    """The platform's terms of referrals, with rewards and budget in kobo."""

    newcomer_minor: int
    referrer_minor: int
    monthly_cap: int
    monthly_budget_minor: int


def fetch_terms(session: Session) -> Terms:
    """Fetch the current terms from the platform settings."""
    settings = fetch_platform_settings(session)
    return Terms(
        newcomer_minor=settings["referral_newcomer_minor"],
        referrer_minor=settings["referral_referrer_minor"],
        monthly_cap=settings["referral_monthly_cap"],
        monthly_budget_minor=settings["referral_monthly_budget_minor"],
    )


def find_exceeded_cap(
    session: Session,
    *,
    terms: Terms,
    referrer_id: UUID,
    receiver: Receiver,
    amount_minor: int,
    now: datetime,
) -> Rejection | None:
    """Return the cap that a further reward would exceed, if any. The caller holds the lock of rewards.

    Newcomers and rewards of a referrer are counted apart, each up to the cap.

    :param amount_minor: the reward in kobo
    """
    since = now - CAP_PERIOD
    counted_at = Referral.accepted_at if receiver == "newcomer" else Referral.rewarded_at
    count = session.scalar(
        select(func.count())
        .select_from(Referral)
        .where(Referral.referrer_id == referrer_id, counted_at > since)
    )
    if (count or 0) >= terms.monthly_cap:
        return "cap_reached"
    # Rows without a transaction have no reward: the amount was 0.
    spent = [
        session.scalar(select(func.coalesce(func.sum(amount), 0)).where(at > since)) or 0
        for amount, at in (
            (Referral.newcomer_minor, Referral.accepted_at),
            (Referral.referrer_minor, Referral.rewarded_at),
        )
    ]
    return "budget_spent" if sum(spent) + amount_minor > terms.monthly_budget_minor else None


def book_reward(session: Session, *, referral: Referral, receiver: Receiver, now: datetime) -> UUID | None:
    """Credit a referral's reward to the receiver's wallet, and notify the receiver.

    The caller stores the transaction's id in the referral.

    :return: the ledger transaction's id; none for a reward of 0 kobo, which is not booked
    :raises AlreadyPostedError: the reward is already booked
    """
    reward = _Reward.of(referral, receiver)
    if not reward.amount_minor:
        return None
    transaction_id = post_transaction(
        session,
        kind="reward",
        source=f"referral:{referral.id}:{receiver}",
        description=reward.description,
        postings=[
            Posting(accounts.REWARDS, "debit", reward.amount_minor),
            Posting(accounts.wallet(reward.user_id), "credit", reward.amount_minor),
        ],
        now=now,
    )
    notify(
        session,
        user_id=reward.user_id,
        type="referral_reward",
        title=reward.title,
        body=reward.body,
        link="/wallet",
        cause=f"referral:{referral.id}:{receiver}",
        now=now,
    )
    return transaction_id


@dataclass(frozen=True)
class _Reward:
    """A reward in kobo, with its texts."""

    user_id: UUID
    amount_minor: int
    description: str
    title: str
    body: str

    @classmethod
    def of(cls, referral: Referral, receiver: Receiver) -> "_Reward":
        """Return the reward of the newcomer or the referrer."""
        if receiver == "newcomer":
            return cls(
                referral.newcomer_id,
                referral.newcomer_minor,
                texts.NEWCOMER_REWARD_DESCRIPTION,
                texts.NEWCOMER_REWARD_TITLE,
                texts.NEWCOMER_REWARD_BODY.format(amount=format_naira(referral.newcomer_minor)),
            )
        if referral.referrer_id is None:
            raise ValueError("a referral without referrer has no reward for the referrer")
        return cls(
            referral.referrer_id,
            referral.referrer_minor,
            texts.REFERRER_REWARD_DESCRIPTION,
            texts.REFERRER_REWARD_TITLE,
            texts.REFERRER_REWARD_BODY.format(amount=format_naira(referral.referrer_minor)),
        )
