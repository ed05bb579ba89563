"""What the platform is set to, changed: by a proposal that two officers carried, and by nothing else."""

from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Json, Statement
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
    """Set a platform setting, or add one; what is placed from the commit on sees it.

    :param key: its name
    :param value: what JSON can say
    :param description: of a new one; a setting that is there keeps its own
    :param now: when
    """
    _UPSERT_SETTING.run(session, key=key, value=Json(value), description=description, now=now)
    drop_cached(session, cache_tags.STATUS)
