"""Table of images."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import CreatedAt, Entity


class Image(Entity):
    """An image in object storage with its renditions, under keys derived from a hash of the content.

    A row exists before its objects are stored (``pending``) and until the objects are deleted (``deleting``). The row
    then stays as ``deleted`` for a while. No key is reused while an old deletion may still run. Seeded images have a
    single rendition and no hash. Rows older than the renditions have only a key.
    """

    __tablename__ = "images"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'ready', 'deleting', 'deleted')", name="status"),
        CheckConstraint("width > 0 AND height > 0", name="size"),
        CheckConstraint("purpose IN ('product', 'avatar', 'review', 'chat')", name="purpose"),
        Index(
            "uq_images_owner_content",
            "owner_id",
            "content_hash",
            unique=True,
            postgresql_where=text("status IN ('pending', 'ready')"),
        ),
        Index("ix_images_content", "content_hash"),
        Index("ix_images_key", "key"),
        Index("ix_images_unused", "unused_since", postgresql_where=text("unused_since IS NOT NULL")),
    )

    purpose: Mapped[str] = mapped_column(server_default="product")
    owner_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    key: Mapped[str] = mapped_column(comment="Object key of the rendition for cards")
    content_hash: Mapped[str | None] = mapped_column(
        comment="Hash of the uploaded file and of the version of the rendition recipe"
    )
    content_type: Mapped[str | None] = mapped_column(
        comment="Media type of the uploaded file, detected from the content"
    )
    width: Mapped[int | None] = mapped_column(
        comment="Width of the uploaded image in upright orientation, in pixels"
    )
    height: Mapped[int | None]
    renditions: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default="[]")
    status: Mapped[str] = mapped_column(server_default="ready")
    unused_since: Mapped[datetime | None] = mapped_column(
        server_default=text("now()"),
        comment="Earliest time since when the image is unused; null while in use",
    )
    created_at: Mapped[CreatedAt]


class PrivateDocument(Entity):
    """A document in the private bucket, such as a student ID or the file of a message.

    Staff read documents by links of a minute. A row exists before the object is stored and until its deletion.
    """

    __tablename__ = "private_documents"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'ready', 'deleting')", name="status"),
        CheckConstraint("byte_count > 0", name="byte_count"),
        Index("ix_private_documents_owner", "owner_id", "created_at"),
        Index("ix_private_documents_due", "delete_after", postgresql_where=text("delete_after IS NOT NULL")),
    )

    owner_id: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    key: Mapped[str] = mapped_column(unique=True)
    content_type: Mapped[str]
    byte_count: Mapped[int]
    content_hash: Mapped[str | None] = mapped_column(comment="SHA-256 that the uploader announced, in hex")
    status: Mapped[str] = mapped_column(server_default="pending")
    delete_after: Mapped[datetime | None] = mapped_column(
        comment="Time after which the document is deleted; null while in use"
    )
    created_at: Mapped[datetime]
