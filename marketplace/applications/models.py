"""Table of vendor applications."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, CheckConstraint, ForeignKey, Index, Uuid, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, EncryptedText

_IS_OPEN = text("status IN ('submitted', 'under_review', 'needs_info')")


class VendorApplication(Timestamped, Entity):
    """An application to open a store. A person has at most one open application, which reserves its slug."""

    __tablename__ = "vendor_applications"
    __table_args__ = (
        CheckConstraint(
            "status IN ('submitted', 'under_review', 'needs_info', 'approved', 'rejected', 'withdrawn')",
            name="status",
        ),
        CheckConstraint("slug ~ '^[a-z0-9]([a-z0-9-]{1,38})[a-z0-9]$'", name="slug"),
        CheckConstraint("cardinality(category_ids) BETWEEN 1 AND 5", name="category_ids"),
        CheckConstraint(f"account_number ~ '{ENCRYPTED_VALUE_PATTERN}'", name="account_number"),
        CheckConstraint(
            "(status IN ('approved', 'rejected')) = (decided_by IS NOT NULL)"
            " AND (decided_by IS NULL) = (decided_at IS NULL)",
            name="decided",
        ),
        CheckConstraint("(status = 'approved') = (vendor_id IS NOT NULL)", name="vendor_id"),
        CheckConstraint("decided_by <> user_id", name="not_own"),
        Index("uq_vendor_applications_open", "user_id", unique=True, postgresql_where=_IS_OPEN),
        Index(
            "uq_vendor_applications_slug",
            text("store_slug_key(slug)"),
            unique=True,
            postgresql_where=_IS_OPEN,
        ),
        Index("ix_vendor_applications_user", "user_id", text("id DESC")),
        Index("ix_vendor_applications_queue", "status", "id"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str] = mapped_column(server_default="submitted")
    store_name: Mapped[str]
    slug: Mapped[str]
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"))
    category_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid))
    description: Mapped[str]
    document_id: Mapped[UUID] = mapped_column(
        comment="The student ID in private_documents, until its deletion"
    )
    bank_code: Mapped[str]
    bank_name: Mapped[str]
    account_number: Mapped[str] = mapped_column(
        EncryptedText("vendor_applications.account_number"), info={"personal": "bank_account"}
    )
    account_name: Mapped[str] = mapped_column(
        info={"personal": "name"}, comment="The holder's name, as reported by the bank"
    )
    recipient_code: Mapped[str] = mapped_column(comment="Recipient of the account at the gateway")
    question: Mapped[str | None] = mapped_column(comment="The latest question of staff to the applicant")
    comment: Mapped[str | None] = mapped_column(
        info={"personal": "message"}, comment="The applicant's answer to the question"
    )
    decided_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    vendor_id: Mapped[UUID | None] = mapped_column(ForeignKey("vendor_profiles.id"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))
