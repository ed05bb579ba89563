"""Tasks of the catalog: new and changed listings are screened."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog.moderation import automated_review
from marketplace.catalog.moderation.automated_review import ScreenedListing
from marketplace.infra.outbox import Handler
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler


def _load_review(session: Session, payload: dict[str, Any]) -> ScreenedListing | None:
    return automated_review.read_and_screen(session, product_id=UUID(payload["productId"]))


def _screen_listing(services: Services, found: ScreenedListing | None) -> tuple[str, ...]:
    return automated_review.check_with_provider(services.moderator, found, now=services.clock())


def _record_review(
    session: Session, found: ScreenedListing | None, doubts: tuple[str, ...], now: datetime
) -> None:
    automated_review.publish_or_hold(session, review=found, doubts=doubts, now=now)


SCREENING = PhasedHandler(read=_load_review, ask=_screen_listing, settle=_record_review)
HANDLERS: Mapping[str, Handler | PhasedHandler[Any, Any]] = {automated_review.SCREENING_TOPIC: SCREENING}
