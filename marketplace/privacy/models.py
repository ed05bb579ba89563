"""Table of exports of personal data."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity


class PrivacyExport(Entity):
    """An export of a person's data. The nonce of the passphrase exists until the archive is ready."""

    __tablename__ = "privacy_exports"
    __table_args__ = (
        CheckConstraint("status IN ('requested', 'processing', 'ready', 'expired', 'failed')", name="status"),
        CheckConstraint("(nonce IS NOT NULL) = (status IN ('requested', 'processing'))", name="nonce"),
        CheckConstraint("(expires_at IS NOT NULL) = (status IN ('ready', 'expired'))", name="expiry"),
        Index(
            "uq_privacy_exports_open",
            "user_id",
            unique=True,
            postgresql_where=text("status IN ('requested', 'processing')"),
        ),
        Index("ix_privacy_exports_user", "user_id", text("id DESC")),
        Index(
            "ix_privacy_exports_current",
            "requested_at",
            postgresql_where=text("status IN ('requested', 'processing', 'ready')"),
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str] = mapped_column(server_default="requested")
    nonce: Mapped[bytes | None]
    document_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("private_documents.id", ondelete="SET NULL"), comment="The archive"
    )
    byte_count: Mapped[int | None]
    row_count: Mapped[int | None]
    requested_at: Mapped[datetime]
    ready_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
