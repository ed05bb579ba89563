"""What the platform is set to, and its places."""

from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.platform.models import Campus, Hub, PlatformSetting

_SELECT_SETTINGS = Statement(select(PlatformSetting.key, PlatformSetting.value))
_SELECT_HUB = Statement(
    select(Hub.id, Hub.name, Hub.address, Hub.campus_id, Campus.name.label("campus_name"))
    .join(Campus, Campus.id == Hub.campus_id)
    .where(Hub.id == bindparam("hub_id"), Hub.active)
)


def fetch_platform_settings(session: Session) -> dict[str, Any]:
    """Give all platform settings by key; they are few."""
    return {row["key"]: row["value"] for row in _SELECT_SETTINGS.all(session)}


def find_hub(session: Session, *, hub_id: UUID) -> dict[str, Any] | None:
    """Find an active hub, or none."""
    return _SELECT_HUB.first(session, hub_id=hub_id)
