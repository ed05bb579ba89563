"""Evaluate the referral code of a newcomer, once, and book the newcomer's reward."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.infra.sql.statements import Statement
from marketplace.referrals import states
from marketplace.referrals.accounts import find_account_rejection
from marketplace.referrals.codes import find_referrer
from marketplace.referrals.models import Referral
from marketplace.referrals.queries import code_expires_at
from marketplace.referrals.rewards import (
    Terms,
    book_reward,
    fetch_terms,
    find_exceeded_cap,
    lock_rewards,
)

# The provisioning of a user may come late, after the first token already created the profile.
EVALUATION_WINDOW = timedelta(days=7)


def evaluate_referral(session: Session, *, newcomer_id: UUID, code: str, now: datetime) -> Referral | None:
    """Evaluate a newcomer's referral code, and book the newcomer's reward if the code is accepted.

    A newcomer's first code decides. Later calls return the first result.

    :param code: as entered by the newcomer
    :return: none if the profile is older than ``EVALUATION_WINDOW``
    """
    newcomer = session.scalars(
        select(Profile).where(Profile.id == newcomer_id).with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    ).one()
    evaluated = session.scalar(select(Referral).where(Referral.newcomer_id == newcomer_id))
    if evaluated is not None or now > newcomer.created_at + EVALUATION_WINDOW:
        return evaluated
    lock_rewards(session)
    referrer = find_referrer(session, code=code)
    terms = fetch_terms(session)
    rejection = _find_rejection(session, newcomer, referrer, terms=terms, now=now)
    referral = Referral(
        newcomer_id=newcomer_id,
        referrer_id=referrer.id if referrer else None,
        status=states.REFERRAL.target(states.PENDING, states.REJECT) if rejection else states.PENDING,
        rejection=rejection,
        newcomer_minor=terms.newcomer_minor,
        referrer_minor=terms.referrer_minor,
        created_at=now,
    )
    if rejection is None:
        _accept(session, referral, newcomer, now=now)
    session.add(referral)
    session.flush()
    return referral


_NEW_ID = Statement(text("SELECT uuidv7()"))


def _accept(session: Session, referral: Referral, newcomer: Profile, *, now: datetime) -> None:
    # The posting names the referral, and a check requires the referral to name the posting.
    referral.id = _NEW_ID.scalar(session)
    referral.newcomer_transaction_id = book_reward(session, referral=referral, receiver="newcomer", now=now)
    referral.accepted_at = now
    newcomer.referral_pending = True


# Whether the newcomer referred the referrer, directly or through others. UNION ends even if the rows had a loop.
_IS_ABOVE = Statement(
    text(
        """
        WITH RECURSIVE above AS (
            SELECT CAST(:referrer_id AS uuid) AS id
            UNION
            SELECT r.referrer_id FROM referrals r JOIN above a ON r.newcomer_id = a.id
            WHERE r.accepted_at IS NOT NULL
        )
        SELECT EXISTS (SELECT FROM above WHERE id = :newcomer_id)
        """
    )
)


def _find_rejection(
    session: Session, newcomer: Profile, referrer: Profile | None, *, terms: Terms, now: datetime
) -> states.Rejection | None:
    if referrer is None:
        return "unknown_code"
    if now > code_expires_at(referrer.created_at, referrer.referral_code_issued_at):
        return "code_expired"
    if _IS_ABOVE.scalar(session, newcomer_id=newcomer.id, referrer_id=referrer.id):
        return "same_person" if newcomer.id == referrer.id else "loop"
    return find_account_rejection(session, newcomer, referrer) or find_exceeded_cap(
        session,
        terms=terms,
        referrer_id=referrer.id,
        receiver="newcomer",
        amount_minor=terms.newcomer_minor,
        now=now,
    )
