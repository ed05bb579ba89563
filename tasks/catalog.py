"""Tasks of the catalog: new and changed listings are screened."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog.moderation import automated_review
from marketplace.catalog.moderation.automated_review import Review
from marketplace.infra.outbox import Handler
from marketplace.services import Services
from tasks.phased_handler import Phased


def _read(session: Session, payload: dict[str, Any]) -> Review | None:
    return automated_review.read(session, product_id=UUID(payload["productId"]))


def _ask(services: Services, found: Review | None) -> tuple[str, ...]:
    return automated_review.ask(services.moderator, found, now=services.clock())


def _settle(session: Session, found: Review | None, doubts: tuple[str, ...], now: datetime) -> None:
    automated_review.settle(session, review=found, doubts=doubts, now=now)


SCREENING = Phased(read=_read, ask=_ask, settle=_settle)
HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {automated_review.SCREENING_TOPIC: SCREENING}
