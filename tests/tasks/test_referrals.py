"""The event of a referred buyer's delivered order, from the outbox to the referrer's wallet."""

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.identity.queries import find_caller
from marketplace.infra import outbox
from marketplace.infra.outbox import OutboxEvent
from marketplace.orders.transitions import REFERRED_ORDER_DELIVERED_TOPIC
from tasks.all_tasks import HANDLERS
from tests.support.purchases import NOW, make_shop
from tests.support.referrals import REFERRER_MINOR, person, receive_order, referred, rewards_of


def test_event_of_delivered_order_rewards_the_referrer(session: Session) -> None:
    referrer = person(session)
    newcomer = referred(session, referrer).newcomer_id
    buyer = find_caller(session, user_id=newcomer, aal="aal1", now=NOW)
    assert buyer is not None
    receive_order(session, replace(make_shop(session), buyer=buyer))
    event_id = session.scalars(
        select(OutboxEvent.id).where(
            OutboxEvent.topic == REFERRED_ORDER_DELIVERED_TOPIC,
            OutboxEvent.payload["buyerId"].astext == str(newcomer),
        )
    ).one()

    runs = [outbox.run_event(session, event_id=event_id, handlers=HANDLERS, now=NOW) for _ in range(2)]

    assert runs == [True, False]
    assert [minor for _, minor in rewards_of(session, referrer)] == [REFERRER_MINOR]
