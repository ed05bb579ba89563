"""Referral codes: look-up, and issue of a new code."""

import re
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from marketplace.identity.models import NEW_REFERRAL_CODE, Profile
from marketplace.referrals.queries import ReferralProgram, show_program

_CODE_PATTERN = re.compile(r"[A-Z0-9]{4,16}")


def find_referrer(session: Session, *, code: str) -> Profile | None:
    """Find the owner of a referral code, also of an expired code. Case, spaces and hyphens do not matter."""
    normalized = re.sub(r"[\s-]", "", code).upper()
    if not _CODE_PATTERN.fullmatch(normalized):
        return None
    return session.scalar(select(Profile).where(Profile.referral_code == normalized))


def issue_code(session: Session, *, user_id: UUID, now: datetime) -> ReferralProgram:
    """Replace a user's referral code by a new code. The old code becomes unknown."""
    session.execute(
        update(Profile)
        .where(Profile.id == user_id)
        .values(referral_code=NEW_REFERRAL_CODE, referral_code_issued_at=now),
        execution_options={"synchronize_session": False},
    )
    return show_program(session, user_id=user_id)
