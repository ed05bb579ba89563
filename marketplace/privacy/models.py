"""Tables of exports and erasures of personal data."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
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


class ErasurePlan(Entity):
    """A plan of an erasure: rows by table and treatment, and blockers. A plan never changes."""

    __tablename__ = "erasure_plans"
    __table_args__ = (
        CheckConstraint("content_hash ~ '^[0-9a-f]{64}$'", name="content_hash"),
        Index("ix_erasure_plans_user", "user_id", "id"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    content: Mapped[dict[str, Any]] = mapped_column(JSONB, comment="Tables and blockers")
    content_hash: Mapped[str] = mapped_column(
        comment="SHA-256 of the content and of the rows that the content counts, in hex"
    )
    created_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    created_at: Mapped[datetime]

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The person's rows by table, with their treatment."""
        tables: list[dict[str, Any]] = self.content["tables"]
        return tables

    @property
    def blockers(self) -> list[dict[str, Any]]:
        """The reasons that block the erasure."""
        blockers: list[dict[str, Any]] = self.content["blockers"]
        return blockers


class ErasureExecution(Entity):
    """An erasure. The person of a restored backup is erased again without a plan."""

    __tablename__ = "erasure_executions"
    __table_args__ = (
        CheckConstraint("status IN ('running', 'finished')", name="status"),
        CheckConstraint(
            "(status = 'finished') = (finished_at IS NOT NULL AND receipt IS NOT NULL)", name="finished"
        ),
        CheckConstraint("(plan_id IS NULL) = (executed_by IS NULL)", name="planned"),
        Index("uq_erasure_executions_plan", "plan_id", unique=True),
        Index("uq_erasure_executions_user", "user_id", unique=True),
        Index("ix_erasure_executions_running", "id", postgresql_where=text("status = 'running'")),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    plan_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("erasure_plans.id"), comment="Null for the repetition after a restored backup"
    )
    executed_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str] = mapped_column(server_default="running")
    tables: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, comment="The tables of the plan")
    erased_rows: Mapped[dict[str, int]] = mapped_column(
        JSONB, server_default=text("'{}'"), comment="Deleted and cleared rows by table"
    )
    receipt: Mapped[dict[str, Any] | None] = mapped_column(JSONB, comment="Signed proof for the person")
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
