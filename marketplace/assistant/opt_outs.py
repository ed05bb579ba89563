"""People who do not allow the assistant to process their data."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.assistant.models import AssistantOptOut


def is_opted_out(session: Session, *, user_id: UUID) -> bool:
    """Return whether a person has opted out."""
    return bool(session.scalar(select(exists().where(AssistantOptOut.user_id == user_id))))


def set_opted_out(session: Session, *, user_id: UUID, opted_out: bool, now: datetime) -> None:
    """Opt out, or in again. A repeated call changes nothing."""
    if opted_out:
        session.execute(
            insert(AssistantOptOut).values(user_id=user_id, created_at=now).on_conflict_do_nothing()
        )
    else:
        session.execute(delete(AssistantOptOut).where(AssistantOptOut.user_id == user_id))
