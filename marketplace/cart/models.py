"""Table of the cart."""

from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt


class CartItem(Base):
    """A product in a user's cart."""

    __tablename__ = "cart_items"
    __table_args__ = (CheckConstraint("quantity BETWEEN 1 AND 1000", name="quantity"),)

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    product_id: Mapped[UUID] = mapped_column(ForeignKey("products.id"), primary_key=True)
    quantity: Mapped[int]
    price_minor_seen: Mapped[int] = mapped_column(comment="The price at the last synchronization of the cart")
    position: Mapped[int]
    updated_at: Mapped[CreatedAt]
