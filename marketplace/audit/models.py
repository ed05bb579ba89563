"""Tables of the audit trail, of its anchors and archives, and of the keys of sealed values."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base
from marketplace.infra.encryption import EncryptedText

PERSON_SECRET = EncryptedText("person_keys.secret")


class AuditLog(Base):
    """A recorded act. Triggers refuse updates and deletions. The table has monthly partitions, see ``partitions``."""

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


class AuditAnchor(Base):
    """A written anchor: the last row at some time of a day."""

    __tablename__ = "audit_anchors"

    day: Mapped[date] = mapped_column(primary_key=True)
    last_id: Mapped[int]
    last_hash: Mapped[str]
    written_at: Mapped[datetime]


class AuditArchive(Base):
    """An archived month, with the last row of its file."""

    __tablename__ = "audit_archives"

    month: Mapped[date] = mapped_column(primary_key=True, comment="First day of the month")
    last_id: Mapped[int]
    last_hash: Mapped[str]
    row_count: Mapped[int]
    sha256: Mapped[str] = mapped_column(comment="SHA-256 of the file, in hex")
    archived_at: Mapped[datetime]
    dropped_at: Mapped[datetime | None] = mapped_column(
        comment="Time at which the retention ended and the rows were dropped"
    )


class PersonKey(Base):
    """The key of a person's sealed values. An erasure deletes the row."""

    __tablename__ = "person_keys"

    owner_id: Mapped[UUID] = mapped_column(
        primary_key=True, comment="A profile, or an id derived from a sender of messages"
    )
    secret: Mapped[str] = mapped_column(PERSON_SECRET)
    created_at: Mapped[datetime]
