"""Tasks of the catalog: new and changed listings are screened."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.catalog import operations
from marketplace.infra.outbox import Handler


def screen_product(session: Session, payload: dict[str, Any], now: datetime) -> None:
    """This function will screen a listing that waits in review."""
    operations.screen_product(session, product_id=UUID(payload["productId"]), now=now)


HANDLERS: Mapping[str, Handler] = {"product.screen": screen_product}
