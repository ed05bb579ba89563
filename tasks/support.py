"""Tasks of support: files of incoming messages."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from marketplace.services import Services
from marketplace.support import media
from tasks.registry import phased_handler


@phased_handler(media.TOPIC)
def fetch_media(services: Services, payload: dict[str, Any], now: datetime) -> Callable[..., None] | None:
    """Fetch, check and store the file of a message."""
    return media.fetch_media(
        services.database,
        services.storage,
        services.message_media,
        bucket=services.settings.s3_private_bucket,
        message_id=UUID(payload["messageId"]),
        now=now,
    )
