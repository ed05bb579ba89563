"""Changes of platform settings, for approved proposals only."""

from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.cache import drop_cached
from marketplace.infra.sql.statements import Json, Statement
from marketplace.platform import cache_tags

_UPSERT_SETTING = Statement(
    text(
        """
        INSERT INTO platform_settings (key, value, description, updated_at)
        VALUES (:key, :value, :description, :now)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = platform_settings.revision + 1,
            updated_at = excluded.updated_at
        """
    )
)


def set_setting(session: Session, *, key: str, value: Any, description: str, now: datetime) -> None:
    """Set or add a platform setting. New orders use the value from the commit on.

    :param value: JSON-compatible
    :param description: for a new setting; an existing setting keeps its description
    """
    _UPSERT_SETTING.run(session, key=key, value=Json(value), description=description, now=now)
    drop_cached(session, cache_tags.STATUS)
