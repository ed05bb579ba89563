"""Moderation of listings without a provider."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog.moderation.automated_review import publish_or_hold, read_and_screen


def screen_by_rules_alone(session: Session, *, product_id: UUID, now: datetime) -> str | None:
    """Screen a listing by the rules in a single transaction and return the state, or None without work."""
    return publish_or_hold(session, listing=read_and_screen(session, product_id=product_id), now=now)
