"""Queries of a user's referrals."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.kernel.errors import found
from marketplace.referrals import states
from marketplace.referrals.models import Referral
from marketplace.referrals.rewards import fetch_terms

CODE_VALIDITY = timedelta(days=365)


@dataclass(frozen=True)
class ReferralProgram:
    """A user's referral code and its results. Amounts are kobo. Other people are only counted."""

    code: str
    code_expires_at: datetime
    newcomer_reward_minor: int
    referrer_reward_minor: int
    pending_count: int
    rewarded_count: int
    earned_minor: int


def code_expires_at(profile_created_at: datetime, issued_at: datetime | None) -> datetime:
    """Return the end of a code's validity, one year after the issue."""
    return (issued_at or profile_created_at) + CODE_VALIDITY


def show_program(session: Session, *, user_id: UUID) -> ReferralProgram:
    """Show a user's code, the current rewards, and the results of the user's referrals.

    :raises NotFoundError: the user has no profile
    """
    profile = found(
        session.execute(
            select(Profile.referral_code, Profile.created_at, Profile.referral_code_issued_at).where(
                Profile.id == user_id
            )
        ).first(),
        "User not found.",
    )
    pending, rewarded, earned_minor = session.execute(
        select(
            func.count().filter(Referral.status == states.PENDING),
            func.count().filter(Referral.status == states.REWARDED),
            func.coalesce(func.sum(Referral.referrer_minor).filter(Referral.status == states.REWARDED), 0),
        ).where(Referral.referrer_id == user_id)
    ).one()
    terms = fetch_terms(session)
    return ReferralProgram(
        code=profile.referral_code,
        code_expires_at=code_expires_at(profile.created_at, profile.referral_code_issued_at),
        newcomer_reward_minor=terms.newcomer_minor,
        referrer_reward_minor=terms.referrer_minor,
        pending_count=pending,
        rewarded_count=rewarded,
        earned_minor=int(earned_minor),
    )
