"""Query plans of alerts: resolved alerts do not slow down raising and listing."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ClauseElement

from marketplace.alerts import queries
from marketplace.infra.db import Database
from marketplace.infra.sessions import driver_cursor
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.paging import PageRequest
from tests.support.purchases import NOW
from tests.support.query_plans import bulk_load

RESOLVED = 20_000
OPEN = 50
_FILL = text(
    """
    INSERT INTO alerts (identifier, severity, subject, title, facts, latest_facts, raised_at, last_raised_at,
        resolved_at, resolution)
    SELECT 'REFUND_STUCK', 'SEV-' || 1 + n % 3, 'plan:' || n, 'A refund needs finance', '{}', '{}',
        now() - n * 7919 % 100000 * interval '1 second', now(),
        CASE WHEN n > :open THEN now() END, CASE WHEN n > :open THEN 'rule' END
    FROM generate_series(1, :rows) AS n
    """
)


_FILL_OUTBOX = text(
    """
    INSERT INTO outbox_events (queue, topic, payload, due_at, attempts, done_at, failed_at)
    SELECT 'notifications', 'alert.send', jsonb_build_object('alertId', n), now(), 1,
        CASE WHEN n > :open THEN now() END, CASE WHEN n <= :open AND n % 2 = 0 THEN now() END
    FROM generate_series(1, :rows) AS n
    """
)


@pytest.fixture(scope="module")
def filled(own_database: Database) -> Iterator[Session]:
    """A session with many alerts, of which few are open."""
    with own_database.engine.connect() as connection, Session(connection) as session:
        with bulk_load(session):
            session.execute(_FILL, {"rows": RESOLVED + OPEN, "open": OPEN})
            session.execute(_FILL_OUTBOX, {"rows": RESOLVED + OPEN, "open": OPEN})
        session.execute(text("ANALYZE alerts, outbox_events"))
        yield session
        session.rollback()


def explained(session: Session, clause: ClauseElement) -> tuple[set[str], int]:
    """Run a statement and return the indexes of the plan and the number of buffers."""
    statement = Statement(clause)
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.sql}", statement._constants)
        (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]

    def indexes(node: dict[str, Any]) -> Iterator[str]:
        if "Index Name" in node:
            yield node["Index Name"]
        for inner in node.get("Plans", ()):
            yield from indexes(inner)

    return set(indexes(plan)), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize("state", [queries.ALL, *queries.STATES])
@pytest.mark.parametrize("after", [False, True])
def test_page_of_alerts_is_read_from_index(filled: Session, state: str, *, after: bool) -> None:
    position = [NOW.replace(year=2100).isoformat(), str(uuid4())] if after else None
    clause = queries._select_alerts(PageRequest(20, position), state)

    indexes, buffers = explained(filled, clause)

    assert len(indexes & {"ix_alerts_raised", "ix_alerts_unresolved"}) == 1, indexes
    assert state != queries.OPEN or indexes == {"ix_alerts_unresolved"}
    assert buffers < 200


def test_unsent_messages_are_found_by_index(filled: Session) -> None:
    indexes, buffers = explained(filled, queries._select_unsent_messages(uuid4()))

    assert indexes == {"ix_outbox_events_due", "ix_outbox_events_failed"}
    assert buffers < 200


def test_open_subjects_of_a_kind_are_found_by_index(filled: Session) -> None:
    indexes, buffers = explained(filled, queries._select_open_subjects("REFUND_STUCK"))

    assert indexes == {"uq_alerts_open"}
    assert buffers < 200
