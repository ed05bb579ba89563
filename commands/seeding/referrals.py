"""Referrals of a buyer: a student whose first order rewarded the buyer, and a student who still waits for an order."""

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.people import student_id
from marketplace.identity.models import Profile
from marketplace.referrals.evaluate import evaluate_referral
from marketplace.referrals.models import Referral
from marketplace.referrals.settle import settle_referral
from sandbox.personas import persona_named

_REFERRER = "buyer2"
# The third student has a delivered order, and the sixth has a paid order.
_NEWCOMERS = (student_id(3), student_id(6))


def load_referrals(session: Session, *, now: datetime) -> int:
    """Create the missing referrals, and reward the buyer for the student with a delivered order.

    :param now: present time
    :return: number of new referrals
    """
    code = session.scalars(
        select(Profile.referral_code).where(Profile.id == persona_named(_REFERRER).user_id)
    ).one()
    known = set(session.scalars(select(Referral.newcomer_id).where(Referral.newcomer_id.in_(_NEWCOMERS))))
    for newcomer_id in _NEWCOMERS:
        signed_up_at = session.get_one(Profile, newcomer_id).created_at + timedelta(minutes=1)
        evaluate_referral(session, newcomer_id=newcomer_id, code=code, now=signed_up_at)
        settle_referral(session, newcomer_id=newcomer_id, now=now)
    return len(set(_NEWCOMERS) - known)
