"""Tables of payments."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Id


class PaymentIntent(Base):
    """One attempt to pay for one or more orders; its reference is the gateway's too."""

    __tablename__ = "payment_intents"
    __table_args__ = (
        CheckConstraint(
            "status IN ('initialized', 'pending', 'succeeded', 'failed', 'quarantined', 'abandoned')",
            name="status",
        ),
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        Index("ix_payment_intents_open", "id", postgresql_where=text("status IN ('initialized', 'pending')")),
        CheckConstraint("reference ~ '^checkout-[0-9a-f]{32}$'", name="reference"),
    )

    id: Mapped[Id]
    reference: Mapped[str] = mapped_column(
        unique=True, server_default=text("'checkout-' || replace(gen_random_uuid()::text, '-', '')")
    )
    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    checkout_id: Mapped[UUID | None]
    amount_minor: Mapped[int]
    currency: Mapped[str] = mapped_column(server_default="NGN")
    status: Mapped[str]
    callback_url: Mapped[str | None]
    authorization_url: Mapped[str | None]
    opening_until: Mapped[datetime | None] = mapped_column(
        comment="Somebody is asking the gateway for the page; others wait until then"
    )
    access_code: Mapped[str | None]
    channel: Mapped[str | None]
    gateway_charge_id: Mapped[str | None]
    settled_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]
    updated_at: Mapped[CreatedAt]


class PaymentAllocation(Base):
    """The part of an intent that pays for one order. An order has one live intent at most."""

    __tablename__ = "payment_allocations"
    __table_args__ = (
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        Index("uq_payment_allocations_live", "order_id", unique=True, postgresql_where=text("live")),
    )

    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), primary_key=True)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"), primary_key=True, index=True)
    amount_minor: Mapped[int]
    live: Mapped[bool] = mapped_column(server_default=text("true"))


class QuarantinedCharge(Base):
    """A settled charge that could not be applied as it came; finance decides what becomes of it."""

    __tablename__ = "quarantined_charges"
    __table_args__ = (
        CheckConstraint(
            "reason IN ('amount_below_total', 'currency', 'order_not_payable', 'already_paid')", name="reason"
        ),
        CheckConstraint("status IN ('open', 'resolved')", name="status"),
    )

    id: Mapped[Id]
    gateway_charge_id: Mapped[str] = mapped_column(unique=True)
    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), index=True)
    reason: Mapped[str]
    amount_minor: Mapped[int]
    currency: Mapped[str]
    fees_minor: Mapped[int]
    ledger_transaction_id: Mapped[UUID | None] = mapped_column(ForeignKey("ledger_transactions.id"))
    details: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(server_default="open")
    created_at: Mapped[CreatedAt]
    resolved_at: Mapped[datetime | None]
