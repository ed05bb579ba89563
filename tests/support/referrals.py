"""Referrals for tests: newcomers, terms, and the postings of rewards."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.infra.outbox import OutboxEvent
from marketplace.infra.sql.statements import Json
from marketplace.orders.transitions import REFERRED_ORDER_DELIVERED_TOPIC
from marketplace.platform.operations import set_setting
from marketplace.referrals.evaluate import evaluate_referral
from marketplace.referrals.models import Referral
from marketplace.referrals.provision import NewUser, ProvisionedUser, provision_user
from tests.support.purchases import NOW, Shop, release, shipped_order

NEWCOMER_MINOR = 50_000
REFERRER_MINOR = 100_000


def join(
    session: Session,
    code: str | None = None,
    *,
    user_id: UUID | None = None,
    now: datetime = NOW,
    **user: Any,
) -> ProvisionedUser:
    """Provision a new user with a referral code."""
    given = NewUser(id=user_id or uuid4(), referral_code=code, **user)
    return provision_user(session, user=given, now=now)


def referred(session: Session, referrer_id: UUID, *, now: datetime = NOW) -> Referral:
    """Return the referral of a newcomer who signs up with a referrer's code."""
    referral = join(session, code_of(session, referrer_id), now=now).referral
    assert referral is not None
    return referral


def person(session: Session, *, created_at: datetime = NOW - timedelta(days=30), **columns: Any) -> UUID:
    """Create a profile and return the id."""
    user_id = uuid4()
    session.add(Profile(id=user_id, created_at=created_at, updated_at=created_at, **columns))
    session.flush()
    return user_id


def change_profile(session: Session, user_id: UUID, **columns: Any) -> None:
    """Change columns of a profile."""
    session.execute(update(Profile).where(Profile.id == user_id).values(**columns))
    session.expire_all()


def code_of(session: Session, user_id: UUID) -> str:
    """Return a user's referral code."""
    return session.get_one(Profile, user_id).referral_code


def evaluate(session: Session, newcomer_id: UUID, code: str, *, now: datetime = NOW) -> Referral | None:
    """Evaluate a referral code."""
    return evaluate_referral(session, newcomer_id=newcomer_id, code=code, now=now)


def set_terms(session: Session, **terms: int) -> None:
    """Set terms, named without ``referral_``."""
    for name, value in terms.items():
        set_setting(session, key=f"referral_{name}", value=value, description="", now=NOW)


def restore_terms(session: Session) -> None:
    """Set all terms to the values of a new installation."""
    set_terms(
        session,
        newcomer_minor=NEWCOMER_MINOR,
        referrer_minor=REFERRER_MINOR,
        monthly_cap=10,
        monthly_budget_minor=50_000_000,
    )


def receive_order(session: Session, shop: Shop, *, now: datetime = NOW) -> UUID:
    """Let the shop's buyer order and receive a product, and return the order's id."""
    order_id = shipped_order(session, shop)
    release(session, shop, order_id, now=now)
    return order_id


def delivery_events(session: Session, buyer_id: UUID) -> int:
    """Count the events about delivered orders of a referred buyer."""
    return (
        session.query(OutboxEvent)
        .filter(
            OutboxEvent.topic == REFERRED_ORDER_DELIVERED_TOPIC,
            OutboxEvent.payload == Json({"buyerId": str(buyer_id)}).adapted,
        )
        .count()
    )


def rewards_of(session: Session, user_id: UUID) -> list[tuple[str, int]]:
    """List the rewards in a user's wallet by description and amount, oldest first."""
    rows = session.execute(
        text(
            """
            SELECT t.description, e.amount_minor FROM ledger_entries e
                JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'wallet' AND a.owner_id = :user_id
                JOIN ledger_transactions t ON t.id = e.transaction_id
            WHERE t.kind = 'reward' AND e.direction = 'credit' ORDER BY e.id
            """
        ),
        {"user_id": user_id},
    )
    return [tuple(row) for row in rows]


def reward_notices(session: Session, user_id: UUID) -> list[str]:
    """List the bodies of a user's notifications about rewards."""
    rows = session.execute(
        text("SELECT body FROM notifications WHERE user_id = :id AND type = 'referral_reward' ORDER BY id"),
        {"id": user_id},
    )
    return [body for (body,) in rows]
