"""Concurrent alerts: a single row, all occurrences counted, a single message for each channel."""

from datetime import timedelta

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.infra.db import Database
from tests.support.alerts import alerts_about, messages_of, unique_subject
from tests.support.purchases import NOW
from tests.support.threads import at_once, unexpected_errors

RAISERS = 8


def raised(database: Database, subject: str, number: int) -> object:
    return database.in_transaction(
        raise_alert,
        identifier="WEBHOOK_DEAD",
        subject=subject,
        title="An event is dead",
        facts={"number": number},
        now=NOW + timedelta(seconds=number),
    )


def test_concurrent_raises_of_same_alert_create_a_single_alert(database: Database) -> None:
    subject = unique_subject()

    results = at_once(lambda number: raised(database, subject, number), range(RAISERS))

    assert unexpected_errors(results) == []
    with database.reading() as session:
        [row] = alerts_about(session, subject)
        messages = messages_of(session, row["id"])
    assert set(results) == {row["id"]}
    assert row["occurrences"] == RAISERS
    assert row["last_raised_at"] == NOW + timedelta(seconds=RAISERS - 1)
    assert messages == [("chat", "raised"), ("email", "raised")]


def test_alert_raised_during_resolution_is_counted_or_reopened(database: Database) -> None:
    subject = unique_subject()
    for round_number in range(10):
        raised(database, subject, 0)

        def act(number: int) -> object:
            if number % 4:
                return raised(database, subject, number)
            return database.in_transaction(
                resolve_alert, identifier="WEBHOOK_DEAD", subject=subject, note="Over.", now=NOW
            )

        assert unexpected_errors(at_once(act, range(RAISERS))) == []

        with database.reading() as session:
            rows = alerts_about(session, subject)
        assert sum(row["occurrences"] for row in rows) == (round_number + 1) * (1 + RAISERS * 3 // 4)
        assert sum(row["resolved_at"] is None for row in rows) <= 1
