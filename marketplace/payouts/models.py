"""Tables of payouts."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, validates

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, BlindIndex, EncryptedText

ACCOUNT_NUMBER = EncryptedText("payout_accounts.account_number")
ACCOUNT_NUMBER_INDEX = BlindIndex("payout_accounts.account_number")

VISIBLE_DIGITS = 4


def mask_account_number(account_number: str) -> str:
    """Mask an account number except for the last four digits."""
    return "*" * (len(account_number) - VISIBLE_DIGITS) + account_number[-VISIBLE_DIGITS:]


class PayoutAccount(Entity):
    """A person's bank account for payouts. Replaced accounts are kept because earlier payouts refer to them."""

    __tablename__ = "payout_accounts"
    __table_args__ = (
        # Refuses statements that forget to encrypt the number.
        CheckConstraint(f"account_number ~ '{ENCRYPTED_VALUE_PATTERN}'", name="account_number"),
        Index(
            "uq_payout_accounts_current", "user_id", unique=True, postgresql_where=text("replaced_at IS NULL")
        ),
        Index("ix_payout_accounts_user", "user_id", "created_at"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    bank_code: Mapped[str]
    bank_name: Mapped[str | None]
    account_number: Mapped[str] = mapped_column(ACCOUNT_NUMBER, info={"personal": "bank_account"})
    account_number_index: Mapped[bytes | str] = mapped_column(
        ACCOUNT_NUMBER_INDEX,
        nullable=False,
        default=lambda context: context.get_current_parameters()["account_number"],
        info={"personal": "bank_account"},
        comment="Blind index; equal for equal account numbers",
    )
    account_name: Mapped[str] = mapped_column(
        comment="Name of the account holder as reported by the bank", info={"personal": "name"}
    )
    recipient_code: Mapped[str | None] = mapped_column(
        comment="Recipient code at the gateway; null until the next payout creates the recipient"
    )
    created_at: Mapped[CreatedAt]
    replaced_at: Mapped[datetime | None]

    @validates("account_number")
    def _index_account_number(self, _name: str, account_number: str) -> str:
        # The column's default covers inserts without the ORM, but not later changes.
        self.account_number_index = account_number
        return account_number

    @property
    def masked_number(self) -> str:
        """The account number with only the last four digits."""
        return mask_account_number(self.account_number)


class PayoutBatch(Timestamped, Entity):
    """Payouts that officers approve and send together. ``staged_by`` is null for batches of the schedule."""

    __tablename__ = "payout_batches"
    __table_args__ = (
        CheckConstraint(
            "status IN ('staged', 'approved', 'dispatching', 'completed', 'partially_failed', 'rejected')",
            name="status",
        ),
        CheckConstraint("(status = 'rejected') = (rejected_at IS NOT NULL)", name="rejected"),
        CheckConstraint("status IN ('staged', 'rejected') OR approved_hash IS NOT NULL", name="approved"),
        Index("ix_payout_batches_status", "status", text("id DESC")),
    )

    status: Mapped[str]
    staged_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    content_hash: Mapped[str] = mapped_column(comment="SHA-256 fingerprint of the payments at the staging")
    approved_hash: Mapped[str | None] = mapped_column(comment="Fingerprint that the second officer approved")
    approved_at: Mapped[datetime | None]
    rejected_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    rejected_at: Mapped[datetime | None]
    rejection_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    dispatched_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    dispatched_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class PayoutApproval(Entity):
    """An officer's approval of a batch's fingerprint, once for each officer and fingerprint."""

    __tablename__ = "payout_approvals"
    __table_args__ = (UniqueConstraint("batch_id", "officer_id", "content_hash"),)

    batch_id: Mapped[UUID] = mapped_column(ForeignKey("payout_batches.id"))
    officer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    content_hash: Mapped[str]
    comment: Mapped[str | None] = mapped_column(info={"personal": "message"})
    created_at: Mapped[CreatedAt]


class PayoutTransferIntent(Timestamped, Entity):
    """A payout. The amount is reserved from the payee's ledger balance when the payout is created.

    A vendor's payout comes from the store's balance. Without ``vendor_id`` the payout comes from the person's wallet.
    A payout without a batch was requested by the payee and joins the next batch.
    """

    __tablename__ = "payout_transfer_intents"
    __table_args__ = (
        CheckConstraint(
            "status IN ('pending', 'submitted', 'success', 'failed', 'reversed', 'unknown', 'cancelled')",
            name="status",
        ),
        CheckConstraint("amount_minor > 0", name="amount_positive"),
        CheckConstraint("batch_id IS NOT NULL OR status IN ('pending', 'cancelled')", name="sent_in_batch"),
        # At most one pending payout for each payee and source.
        Index(
            "uq_payout_transfer_intents_waiting",
            "user_id",
            "vendor_id",
            unique=True,
            postgresql_where=text("status = 'pending'"),
            postgresql_nulls_not_distinct=True,
        ),
        Index("ix_payout_transfer_intents_batch", "batch_id", "id"),
        Index("ix_payout_transfer_intents_vendor", "vendor_id", text("id DESC")),
        Index("ix_payout_transfer_intents_user", "user_id", text("id DESC")),
        # Each final status of a payout checks whether the batch has open payouts left.
        Index(
            "ix_payout_transfer_intents_open",
            "batch_id",
            "id",
            postgresql_where=text("status IN ('pending', 'submitted', 'unknown')"),
        ),
    )

    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey("payout_batches.id"))
    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    vendor_id: Mapped[UUID | None] = mapped_column(ForeignKey("vendor_profiles.id"))
    account_id: Mapped[UUID] = mapped_column(ForeignKey("payout_accounts.id"), index=True)
    amount_minor: Mapped[int]
    status: Mapped[str]
    asked_for: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Requested by the payee before the staging"
    )
    failure_reason: Mapped[str | None] = mapped_column(comment="Reason shown to the payee")
    stalled_at: Mapped[datetime | None] = mapped_column(
        comment="Time when the payout was flagged after 48 hours in transit"
    )


class PayoutTransfer(Timestamped, Entity):
    """A payout's transfer at the gateway. The reference is committed before the first call and never changes."""

    __tablename__ = "payout_transfers"
    __table_args__ = (
        CheckConstraint("reference ~ '^payout-[0-9a-f]{32}$'", name="reference"),
        CheckConstraint("status IN ('pending', 'submitted', 'success', 'unknown')", name="status"),
        Index(
            "ix_payout_transfers_due",
            "ask_at",
            postgresql_where=text("ask_at IS NOT NULL"),
        ),
    )

    intent_id: Mapped[UUID] = mapped_column(ForeignKey("payout_transfer_intents.id"), unique=True)
    reference: Mapped[str] = mapped_column(
        unique=True, server_default=text("'payout-' || replace(gen_random_uuid()::text, '-', '')")
    )
    status: Mapped[str]
    gateway_transfer_id: Mapped[str | None]
    transfer_code: Mapped[str | None] = mapped_column(unique=True)
    fee_minor: Mapped[int] = mapped_column(server_default=text("0"))
    attempts: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Number of status polls at the gateway"
    )
    times_returned: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Number of times that the gateway reported a failure or reversal"
    )
    ask_at: Mapped[datetime | None] = mapped_column(comment="Time of the next status poll")
    sent_at: Mapped[datetime | None] = mapped_column(comment="Start time of the call that sends the transfer")


class PayoutException(Entity):
    """A failed, reversed or unrecognized transfer, as reported by the gateway, for finance to resolve."""

    __tablename__ = "payout_exceptions"
    __table_args__ = (
        CheckConstraint("outcome IN ('failed', 'reversed', 'unexpected')", name="outcome"),
        CheckConstraint("(resolved_at IS NULL) = (resolved_by IS NULL)", name="resolved"),
        UniqueConstraint("gateway_transfer_id", "outcome"),
        Index("ix_payout_exceptions_reference", "reference"),
        Index("ix_payout_exceptions_open", "created_at", postgresql_where=text("resolved_at IS NULL")),
    )

    gateway_transfer_id: Mapped[str]
    reference: Mapped[str]
    outcome: Mapped[str]
    amount_minor: Mapped[int]
    currency: Mapped[str]
    created_at: Mapped[CreatedAt]
    resolved_at: Mapped[datetime | None]
    resolved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    resolution_note: Mapped[str | None] = mapped_column(info={"personal": "message"})

    @property
    def status(self) -> str:
        """Whether finance has resolved the exception."""
        return "open" if self.resolved_at is None else "resolved"


class PayoutShareHold(Base):
    """The held share of an order that a ruling released to a vendor."""

    __tablename__ = "payout_share_holds"
    __table_args__ = (
        CheckConstraint("amount_minor > 0", name="amount"),
        Index("ix_payout_share_holds_vendor", "vendor_id"),
    )

    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    amount_minor: Mapped[int]
    until: Mapped[datetime | None] = mapped_column(comment="End of the hold; null while an appeal is pending")
    created_at: Mapped[CreatedAt]
