"""A cart is filled and emptied."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

_CLEAR = Statement(text("DELETE FROM cart_items WHERE user_id = :user_id"))


def clear(session: Session, *, user_id: UUID) -> int:
    """This function will empty somebody's cart and tell how many lines it had."""
    return _CLEAR.run(session, user_id=user_id)
