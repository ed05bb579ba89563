"""Queries of platform settings and hubs."""

from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Prepared
from marketplace.platform.models import Campus, Hub, PlatformSetting

_SELECT_SETTINGS = Prepared(select(PlatformSetting.key, PlatformSetting.value))


def fetch_platform_settings(session: Session) -> dict[str, Any]:
    """Fetch all platform settings by key. The table is small."""
    return dict(_SELECT_SETTINGS.tuples(session))


def find_open_hub(session: Session, *, hub_id: UUID) -> Hub | None:
    """Find a hub that accepts new orders: an active hub of an active campus, or none."""
    return session.scalar(
        select(Hub)
        .join(Campus, Campus.id == Hub.campus_id)
        .where(Hub.id == hub_id, Hub.active, Campus.active)
    )
