"""Tasks of campuses."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags
from marketplace.infra.cache import drop_cached
from marketplace.platform.campuses import campus_list
from tasks.registry import handler


@handler(campus_list.RENAMED_TOPIC)
def handle_campus_renamed(session: Session, _payload: dict[str, Any], _now: datetime) -> None:
    """Drop cached product pages, which show the name of the campus."""
    drop_cached(session, cache_tags.PRODUCTS)
