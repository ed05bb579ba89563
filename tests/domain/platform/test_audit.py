"""The audit trail: append-only rows and detection of tampering."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from marketplace.audit.operations import GENESIS_HASH, Act, record_audit_entry
from marketplace.infra.db import sqlstate
from tests.support.audit_and_notifications import find_first_broken_link

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
RESTRICT_VIOLATION = "23001"


def act(session: Session, action: str = "role.change") -> None:
    record_audit_entry(
        session,
        act=Act("finance", NOW, user_id=uuid4(), ip_address="192.0.2.7", user_agent="curl"),
        action=action,
        target_type="profile",
        target_id=str(uuid4()),
        before={"role": "buyer", "minor": 5},
        after={"role": "vendor", "list": [1, None, "é"]},
    )


def last_row(session: Session) -> dict[str, object]:
    found = session.execute(text("SELECT * FROM audit_logs ORDER BY id DESC LIMIT 1")).mappings().one()
    return dict(found)


def test_audit_row_contains_hash_of_previous_row(session: Session) -> None:
    before = session.execute(text("SELECT hash FROM audit_logs ORDER BY id DESC LIMIT 1")).scalar()
    act(session)
    first = last_row(session)
    act(session)
    second = last_row(session)

    assert first["previous_hash"] == (before or GENESIS_HASH)
    assert second["previous_hash"] == first["hash"]
    assert first["before"] == {"role": "buyer", "minor": 5}
    assert find_first_broken_link(session) is None


def test_audit_entry_without_actor_or_change_is_recorded(session: Session) -> None:
    record_audit_entry(session, act=Act("operator", NOW), action="x", target_type="t", target_id="1")

    assert last_row(session)["actor_id"] is None
    assert find_first_broken_link(session) is None


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_logs SET actor = 'nobody'", "DELETE FROM audit_logs", "TRUNCATE audit_logs"],
    ids=["update", "delete", "truncate"],
)
def test_database_refuses_changes_of_audit_rows(session: Session, statement: str) -> None:
    act(session)

    with pytest.raises(DBAPIError) as refused, session.begin_nested():
        session.execute(text(statement))

    assert sqlstate(refused.value) == RESTRICT_VIOLATION


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit_logs SET actor = 'nobody' WHERE id = :id",
        "UPDATE audit_logs SET after = '{}' WHERE id = :id",
        "DELETE FROM audit_logs WHERE id = :id",
    ],
    ids=["other actor", "other change", "row gone"],
)
def test_tampering_with_disabled_trigger_is_detected(session: Session, tampering: str) -> None:
    for _ in range(3):
        act(session)
    ids = session.execute(text("SELECT id FROM audit_logs ORDER BY id DESC LIMIT 3")).scalars().all()
    session.execute(text("ALTER TABLE audit_logs DISABLE TRIGGER audit_logs_append_only"))

    session.execute(text(tampering), {"id": ids[1]})

    assert find_first_broken_link(session) in (ids[1], ids[0])
