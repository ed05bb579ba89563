"""Refunds that nothing was heard of: the gateway is asked, for events get lost."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, Statement
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments import alarms, refunds, sending
from marketplace.providers.gateway import GatewayRefund, PaymentGateway

# The gateway takes days for some; asking each hour is enough.
QUIET_FOR = timedelta(hours=1)
_BATCH = 500

_QUIET = Statement(
    text(
        """
        SELECT r.id, r.attempt, r.gateway_refund_id, i.reference
        FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id JOIN payment_intents i ON i.id = c.intent_id
        WHERE r.status IN ('submitted', 'needs_attention') AND r.updated_at <= :before
        ORDER BY r.updated_at, r.id LIMIT :most
        """
    )
)
# Their event was given up after its last try; nobody else will send them.
_LEFT_BEHIND = Statement(
    text(
        """
        SELECT r.id FROM refunds r
        WHERE r.status = 'pending' AND r.updated_at <= :before AND NOT EXISTS (
            SELECT FROM outbox_events e WHERE e.topic = :topic AND e.done_at IS NULL AND e.failed_at IS NULL
                AND e.payload ->> 'refundId' = CAST(r.id AS text))
        ORDER BY r.updated_at, r.id LIMIT :most
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_HEARD_OF = Statement(text("UPDATE refunds SET updated_at = :now WHERE id = :refund_id"))


@dataclass
class Requery:
    """What a sweep did: refunds asked about, those that the gateway told news of, those that are sent again."""

    asked: int = 0
    news: int = 0
    enqueued: int = 0
    gateway_down: bool = False


def requery_refunds(database: Database, gateway: PaymentGateway, *, now: datetime) -> Requery:
    """This function will ask the gateway about refunds that nothing was heard of for an hour.

    Those that wait to be sent, but whose event was given up, are handed on again. At most 500 of each in a sweep.

    :param now: the time
    :return: what was done
    """
    done = Requery()
    done.enqueued = database.in_transaction(_enqueue_again, now)
    with database.reading() as session:
        quiet = _QUIET.all(session, before=now - QUIET_FOR, most=_BATCH)
    for row in quiet:
        try:
            told = _ask(gateway, row)
        except ProviderUnavailableError:
            done.gateway_down = True
            break
        done.asked += 1
        done.news += database.in_transaction(_note, row, told, now)
    if done.asked and not done.gateway_down:
        database.in_transaction(alarms.gateway_reached, now=now)
    return done


def _enqueue_again(session: Session, now: datetime) -> int:
    rows = _LEFT_BEHIND.all(session, topic=refunds.SEND_TOPIC, before=now - QUIET_FOR, most=_BATCH)
    for row in rows:
        refunds.enqueue_sending(session, refund_id=row["id"], now=now)
        _HEARD_OF.run(session, refund_id=row["id"], now=now)
    return len(rows)


def _ask(gateway: PaymentGateway, row: dict[str, Any]) -> GatewayRefund | None:
    note = sending.note_of(row["id"], row["attempt"])
    for known in gateway.refunds_of(row["reference"]):
        if known.note == note or known.id == row["gateway_refund_id"]:
            return known
    return None


def _note(session: Session, row: dict[str, Any], told: GatewayRefund | None, now: datetime) -> bool:
    """Settle by the gateway's word, and tell whether it was news; it is asked again in an hour."""
    before = sending.status_of(session, refund_id=row["id"])
    if told is None:
        after = before
        alarms.refund_unknown(session, row, now=now)
    else:
        alarms.refund_known(session, refund_id=row["id"], now=now)
        after = sending.settle(session, refund_id=row["id"], told=told, now=now)
    _HEARD_OF.run(session, refund_id=row["id"], now=now)
    return after != before
