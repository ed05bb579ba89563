"""Notifications and audit entries for tests."""

from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.chain import BrokenChainError, read_rows, verify_rows
from marketplace.audit.person_keys import unseal_values
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
        return [unseal_values(session, row) for row in _AUDIT.all(session, target_id=str(target_id))]


def find_first_broken_link(session: Session) -> int | None:
    """Verify the audit trail, and return the first wrong row, or none."""
    try:
        verify_rows(read_rows(session, after_id=0))
    except BrokenChainError as error:
        return error.row_id
    return None
