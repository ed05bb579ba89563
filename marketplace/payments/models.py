"""Tables of payments."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, EncryptedText

TRANSFER_ACCOUNT_NUMBER = EncryptedText("transfer_accounts.account_number")


class PaymentIntent(Timestamped, Entity):
    """A payment intent for one or more orders. The gateway uses the same reference."""

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
        comment="End of the lease on requesting the payment page; other requests wait until then"
    )
    access_code: Mapped[str | None]
    channel: Mapped[str | None]
    gateway_charge_id: Mapped[str | None]
    settled_at: Mapped[datetime | None]


class PaymentTransferAccount(Base):
    """A bank account that the gateway created for a single payment. A transfer to the account is a charge."""

    __tablename__ = "transfer_accounts"
    __table_args__ = (
        CheckConstraint(f"account_number ~ '{ENCRYPTED_VALUE_PATTERN}'", name="account_number"),
    )

    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), primary_key=True)
    bank_name: Mapped[str]
    account_number: Mapped[str] = mapped_column(TRANSFER_ACCOUNT_NUMBER, info={"personal": "bank_account"})
    account_name: Mapped[str] = mapped_column(info={"personal": "name"})
    expires_at: Mapped[datetime]
    created_at: Mapped[CreatedAt]


class PaymentAllocation(Base):
    """The part of an intent that pays for one order. An order has at most one live intent.

    The amount is 0 for an order of a checkout that the buyer's wallet covers in full. The charge for the other orders
    marks that order as paid too.
    """

    __tablename__ = "payment_allocations"
    __table_args__ = (
        CheckConstraint("amount_minor >= 0", name="amount_not_negative"),
        Index("uq_payment_allocations_live", "order_id", unique=True, postgresql_where=text("live")),
    )

    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), primary_key=True)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"), primary_key=True, index=True)
    amount_minor: Mapped[int]
    live: Mapped[bool] = mapped_column(server_default=text("true"))


class QuarantinedCharge(Entity):
    """A settled charge that could not be applied, until an officer resolves the charge."""

    __tablename__ = "quarantined_charges"
    __table_args__ = (
        CheckConstraint(
            "reason IN ('amount_below_total', 'currency', 'fees_above_amount', 'order_not_payable', 'already_paid')",
            name="reason",
        ),
        CheckConstraint("status IN ('open', 'resolved')", name="status"),
        CheckConstraint("(status = 'resolved') = (resolved_at IS NOT NULL)", name="resolved_at"),
        Index("ix_quarantined_charges_created", "created_at", "id"),
    )

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
    resolution: Mapped[str | None] = mapped_column(comment="Action with which an officer resolved the charge")
    resolution_note: Mapped[str | None] = mapped_column(
        comment="The officer's reason", info={"personal": "message"}
    )
    resolved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))


class GatewayCharge(Entity):
    """A settled charge that the gateway reported, with its outcome.

    ``principal_minor`` is the buyer's money: the charge without fees that the customer paid on top. ``refunded_minor``
    is the part that the gateway has refunded or is about to refund.
    """

    __tablename__ = "gateway_charges"
    __table_args__ = (
        CheckConstraint("outcome IN ('applied', 'quarantined', 'returned')", name="outcome"),
        CheckConstraint("refunded_minor BETWEEN 0 AND greatest(principal_minor, 0)", name="refunded"),
        Index("ix_gateway_charges_created", "created_at", "id"),
    )

    gateway_charge_id: Mapped[str] = mapped_column(unique=True)
    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), index=True)
    outcome: Mapped[str]
    amount_minor: Mapped[int]
    fees_minor: Mapped[int]
    principal_minor: Mapped[int]
    refunded_minor: Mapped[int] = mapped_column(server_default=text("0"))
    currency: Mapped[str]
    channel: Mapped[str]
    ledger_transaction_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("ledger_transactions.id"), index=True
    )
    paid_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]


class Refund(Timestamped, Entity):
    """A refund to the buyer's original payment method through the gateway, or to the buyer's wallet.

    The unique ``cause`` prevents a second refund. A refund through the gateway is ``pending`` until the gateway accepts
    the request, and ``submitted`` until the gateway reports a result. Only an officer may retry a failed refund.
    """

    __tablename__ = "refunds"
    __table_args__ = (
        CheckConstraint("destination IN ('gateway', 'wallet')", name="destination"),
        CheckConstraint(
            "status IN ('pending', 'submitted', 'processed', 'failed', 'needs_attention', 'credited')",
            name="status",
        ),
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        CheckConstraint("paid_twice_minor >= 0", name="paid_twice_not_negative"),
        CheckConstraint("attempt BETWEEN 1 AND tries", name="attempt_of_tries"),
        CheckConstraint("times_returned >= 0", name="times_returned_not_negative"),
        CheckConstraint("(destination = 'gateway') = (charge_id IS NOT NULL)", name="charge_of_gateway"),
        Index(
            "ix_refunds_open",
            "created_at",
            "id",
            postgresql_where=text("status IN ('pending', 'submitted', 'failed', 'needs_attention')"),
        ),
        Index("ix_refunds_paid_twice", "created_at", "id", postgresql_where=text("paid_twice_minor > 0")),
    )

    order_id: Mapped[UUID | None] = mapped_column(ForeignKey("orders.id"), index=True)
    charge_id: Mapped[UUID | None] = mapped_column(ForeignKey("gateway_charges.id"), index=True)
    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    destination: Mapped[str]
    amount_minor: Mapped[int]
    status: Mapped[str]
    cause: Mapped[str] = mapped_column(unique=True)
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    requested_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    gateway_refund_id: Mapped[str | None] = mapped_column(unique=True)
    attempt: Mapped[int] = mapped_column(
        Integer,
        server_default=text("1"),
        comment="Number of the current attempt; a retry starts a new attempt",
    )
    tries: Mapped[int] = mapped_column(
        Integer,
        server_default=text("1"),
        comment="Number of the latest attempt; the current attempt may be an earlier one",
    )
    asked_at: Mapped[datetime | None] = mapped_column(
        comment="Time of the first request to the gateway in this attempt"
    )
    asking_until: Mapped[datetime | None] = mapped_column(
        comment="End of the lease on sending the refund; other workers wait until then"
    )
    settled_at: Mapped[datetime | None]
    paid_twice_minor: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="Kobo that the gateway paid although the buyer already had the money",
    )
    times_returned: Mapped[int] = mapped_column(
        Integer,
        server_default=text("0"),
        comment="How many times the refund was sent and came back to the gateway",
    )


class Chargeback(Entity):
    """A chargeback: a dispute of a charge by the customer's bank, as reported by the gateway."""

    __tablename__ = "charge_disputes"
    __table_args__ = (
        CheckConstraint("status IN ('open', 'resolved')", name="status"),
        CheckConstraint("(status = 'resolved') = (resolved_at IS NOT NULL)", name="resolved_at"),
    )

    gateway_dispute_id: Mapped[str] = mapped_column(unique=True)
    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payment_intents.id"), index=True)
    gateway_charge_id: Mapped[str | None] = mapped_column(
        comment="The disputed charge; none if the gateway did not name a charge of the payment"
    )
    status: Mapped[str]
    gateway_status: Mapped[str | None] = mapped_column(comment="The gateway's status of the dispute")
    resolution: Mapped[str | None] = mapped_column(comment="The gateway's outcome of the dispute")
    category: Mapped[str | None]
    amount_minor: Mapped[int | None]
    due_at: Mapped[datetime | None] = mapped_column(comment="Deadline for a response at the gateway")
    opened_at: Mapped[CreatedAt]
    resolved_at: Mapped[datetime | None]
    updated_at: Mapped[CreatedAt]
