"""Events of products that are somebody's favourite. Workers announce price drops and restocks after the commit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel import queues

CHANGED_TOPIC = "favorites.product-changed"

_SELECT_FAVORITE_PRODUCTS = Prepared(
    text(
        """
        SELECT CAST(p.id AS text) FROM unnest(CAST(:product_ids AS uuid[])) AS p (id)
        WHERE EXISTS (SELECT FROM favorites f WHERE f.product_id = p.id)
        """
    )
)


def enqueue_change(session: Session, *, product_ids: Sequence[UUID], now: datetime) -> None:
    """Have the favourites of changed products checked after the commit. Products without favourites cause no event.

    :param product_ids: products with a new price, new stock or a new status
    """
    for product_id in _SELECT_FAVORITE_PRODUCTS.scalars(session, product_ids=list(product_ids)):
        enqueue_check(session, payload={"productId": product_id}, now=now)


def enqueue_check(session: Session, *, payload: dict[str, Any], now: datetime) -> None:
    """Enqueue the check of a batch of favourites.

    :param payload: ``productId``, and ``after``: the user id of the last checked favourite
    """
    outbox.enqueue(session, queue=queues.NOTIFICATIONS, topic=CHANGED_TOPIC, payload=payload, due_at=now)
