"""Settle pending referrals: reward the referrer after the newcomer's first delivered order."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.operations import lock_profile
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.referrals import states
from marketplace.referrals.accounts import find_account_rejection
from marketplace.referrals.models import Referral
from marketplace.referrals.rewards import book_reward, fetch_terms, find_exceeded_cap, lock_rewards

# A referral without a delivered order within this time earns the referrer nothing.
ORDER_WINDOW = timedelta(days=180)
_SWEEP_LIMIT = 500

# The first delivered order of a referral ``r``. Orders of the referrer's own store do not count: the store's owner
# could turn rewards into cash. Neither do orders whose money was taken back in full.
_QUALIFYING_ORDER_SQL = """
    SELECT o.id FROM orders o JOIN escrows s ON s.order_id = o.id JOIN vendor_profiles v ON v.id = o.vendor_id
    WHERE o.buyer_id = r.newcomer_id AND o.status = 'delivered' AND v.user_id <> r.referrer_id
        AND s.clawed_back_minor < s.released_minor
        AND o.delivered_at <= r.accepted_at + CAST(:order_window AS interval)
    ORDER BY o.delivered_at, o.id LIMIT 1
"""
_SELECT_QUALIFYING_ORDER = Statement(
    text(
        f"""
        SELECT o.id FROM referrals r CROSS JOIN LATERAL ({_QUALIFYING_ORDER_SQL}) o WHERE r.id = :referral_id
        """
    )
)


def settle_referral(session: Session, *, newcomer_id: UUID, now: datetime) -> str | None:
    """Reward the referrer if the newcomer has a delivered order, or reject the referral.

    A referral that waits for an order stays pending for ``ORDER_WINDOW``.

    :return: the referral's status; none without a pending referral
    """
    lock_profile(session, user_id=newcomer_id)
    referral = session.scalar(
        select(Referral)
        .where(Referral.newcomer_id == newcomer_id, Referral.status == states.PENDING)
        .with_for_update(),
        execution_options={"populate_existing": True},
    )
    if referral is None:
        return None
    order_id: UUID | None = _SELECT_QUALIFYING_ORDER.scalar(
        session, referral_id=referral.id, order_window=ORDER_WINDOW
    )
    rejection: states.Rejection | None
    if order_id is not None:
        lock_rewards(session)
        rejection = _find_rejection(session, referral, now=now)
    elif referral.accepted_at is not None and now > referral.accepted_at + ORDER_WINDOW:
        rejection = "no_order_in_time"
    else:
        return referral.status
    if rejection:
        referral.status = states.REFERRAL.target(referral.status, states.REJECT)
        referral.rejection = rejection
    else:
        transaction_id = book_reward(session, referral=referral, receiver="referrer", now=now)
        referral.referrer_transaction_id = transaction_id
        referral.status = states.REFERRAL.target(referral.status, states.REWARD)
        referral.rewarded_at, referral.order_id = now, order_id
    session.execute(update(Profile).where(Profile.id == newcomer_id).values(referral_pending=False))
    session.flush()
    return referral.status


def _find_rejection(session: Session, referral: Referral, *, now: datetime) -> states.Rejection | None:
    """Return the reason to deny the referrer's reward, if any."""
    newcomer = session.get_one(Profile, referral.newcomer_id, populate_existing=True)
    referrer = session.get_one(Profile, referral.referrer_id, populate_existing=True)
    return find_account_rejection(session, newcomer, referrer) or find_exceeded_cap(
        session,
        terms=fetch_terms(session),
        referrer_id=referrer.id,
        receiver="referrer",
        amount_minor=referral.referrer_minor,
        now=now,
    )


_SELECT_DUE_NEWCOMERS = Statement(
    text(
        f"""
        SELECT r.newcomer_id FROM referrals r
        WHERE r.status = 'pending' AND (
            r.accepted_at < :now - CAST(:order_window AS interval) OR EXISTS ({_QUALIFYING_ORDER_SQL}))
        ORDER BY r.accepted_at LIMIT :limit
        """
    )
)


def settle_due_referrals(database: Database, *, now: datetime) -> int:
    """Settle referrals whose event was lost, and reject referrals without an order in time.

    An event can be missing if the order was delivered while the referral was evaluated.

    :return: the number of settled referrals
    """
    with database.reading() as session:
        due = _SELECT_DUE_NEWCOMERS.scalars(session, now=now, order_window=ORDER_WINDOW, limit=_SWEEP_LIMIT)
    for newcomer_id in due:
        database.in_transaction(settle_referral, newcomer_id=newcomer_id, now=now)
    return len(due)
