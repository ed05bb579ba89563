"""Table of the audit trail."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class AuditLog(Base):
    """A recorded act. A trigger refuses updates and deletions."""

    __tablename__ = "audit_logs"
    __table_args__ = (
        Index("ix_audit_logs_at", "at"),
        Index("ix_audit_logs_actor", "actor_id", "id", postgresql_where=text("actor_id IS NOT NULL")),
        Index("ix_audit_logs_target", "target_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime]
    actor_id: Mapped[UUID | None]
    actor: Mapped[str]
    action: Mapped[str]
    target_type: Mapped[str]
    target_id: Mapped[str]
    ip_address: Mapped[str | None] = mapped_column(info={"personal": "ip_address"})
    user_agent: Mapped[str | None] = mapped_column(info={"personal": "device"})
    request_id: Mapped[UUID | None] = mapped_column(comment="Request of the act")
    on_behalf_of_id: Mapped[UUID | None] = mapped_column(comment="Person for whom the actor acted")
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]
    previous_hash: Mapped[str]
    hash: Mapped[str]
