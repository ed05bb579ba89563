"""What is in somebody's cart."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

_LINES = Statement(
    text("SELECT product_id, quantity FROM cart_items WHERE user_id = :user_id ORDER BY position, product_id")
)


def lines_for_order(session: Session, *, user_id: UUID) -> list[tuple[UUID, int]]:
    """This function will give the products and pieces in somebody's cart, in its order."""
    return [(row["product_id"], row["quantity"]) for row in _LINES.all(session, user_id=user_id)]
