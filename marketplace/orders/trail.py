"""The trail of an order: all events, with the notes of people who are not erased."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import load_keys, unseal
from marketplace.orders.models import OrderEvent


@dataclass(frozen=True)
class TrailEntry:
    """An event of an order. The note of an erased person is none."""

    id: int
    order_id: UUID
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    actor_id: UUID | None
    note: str | None
    at: datetime


def list_trail(session: Session, *, order_id: UUID) -> list[TrailEntry]:
    """List an order's events, the earliest first, in two queries at most."""
    events = session.scalars(
        select(OrderEvent).where(OrderEvent.order_id == order_id).order_by(OrderEvent.id)
    ).all()
    load_keys(session, (event.note for event in events))
    return [
        TrailEntry(
            id=event.id,
            order_id=event.order_id,
            from_status=event.from_status,
            to_status=event.to_status,
            trigger=event.trigger,
            actor=event.actor,
            actor_id=event.actor_id,
            note=unseal(session, event.note),
            at=event.at,
        )
        for event in events
    ]
