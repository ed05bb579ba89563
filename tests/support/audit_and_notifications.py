"""Notifications and audit entries for tests."""

from typing import Any
from uuid import UUID

from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement

_NOTIFICATIONS = Statement(text("SELECT * FROM notifications WHERE user_id = :user_id ORDER BY id"))
_AUDIT = Statement(text("SELECT * FROM audit_logs WHERE target_id = :target_id ORDER BY id"))


def notifications_of(database: Database, user_id: UUID) -> list[dict[str, Any]]:
    """List a user's notifications in order."""
    with database.reading() as session:
        return _NOTIFICATIONS.all(session, user_id=user_id)


def audit_of(database: Database, target_id: UUID | str) -> list[dict[str, Any]]:
    """List the audit entries of a target in order."""
    with database.reading() as session:
        return _AUDIT.all(session, target_id=str(target_id))
