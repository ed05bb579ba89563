"""Table of idempotency keys."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity
from marketplace.infra.encryption import EncryptedText

RESPONSE_TEXT = EncryptedText("idempotency_keys.response_text")


class IdempotencyKey(Entity):
    """A key of a caller for a method and a concrete path. A completed key has a stored response."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (UniqueConstraint("caller", "method", "path", "key"),)

    caller: Mapped[str]
    method: Mapped[str]
    path: Mapped[str]
    key: Mapped[str]
    request_hash: Mapped[str]
    claimed_at: Mapped[datetime]
    completed_at: Mapped[datetime | None]
    response_status: Mapped[int | None]
    response_type: Mapped[str | None]
    response_text: Mapped[str | None] = mapped_column(RESPONSE_TEXT, info={"personal": "response"})
    expires_at: Mapped[datetime] = mapped_column(index=True)
