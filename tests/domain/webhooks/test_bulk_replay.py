"""Bulk replay by an operator: progress, rate limit and interruption."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import orjson
import pytest

from commands import webhook_replay
from commands.webhook_replay import replay_all
from marketplace.infra.db import Database
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from marketplace.webhooks import inbox, queries
from tests.support.gateway_events import transfer_data
from tests.support.purchases import NOW


def make_event(database: Database) -> queries.WebhookEventDetail:
    """Create an event without any processing attempt."""
    body = orjson.dumps({"event": "transfer.failed", "data": transfer_data("failed")})
    inbox_id = database.in_transaction(inbox.receive_event, provider="gateway", body=body, now=NOW)
    with database.reading() as session:
        return queries.fetch_event(session, inbox_id=inbox_id)


def clock_that_fails_at_third(error: BaseException) -> Callable[[], datetime]:
    """Return a clock that is read once per event and raises the error at the third."""
    times = iter((NOW, NOW))

    def read_clock() -> datetime:
        moment = next(times, None)
        if moment is None:
            raise error
        return moment

    return read_clock


@pytest.mark.parametrize(
    ("error", "interruption"),
    [
        (KeyboardInterrupt(), "Interrupted"),
        (ServiceUnavailableError("The database can't be reached."), "The database connection was lost"),
    ],
)
def test_interrupted_bulk_replay_reports_the_finished_events(
    services: Services,
    database: Database,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    interruption: str,
) -> None:
    rows = [make_event(database) for _ in range(4)]

    run = replay_all(
        replace(services, clock=clock_that_fails_at_third(error)),
        rows,
        dry_run=False,
        rate=None,
        by_cause=True,
    )

    assert run.interruption == interruption
    assert [item.id for item in run.replayed] == [row.id for row in rows[:2]]
    assert {name: counts.total() for name, counts in run.counts().items()} == {"not tried yet": 2}
    assert "not tried yet: 2 of 4, aborted (" in capsys.readouterr().err
    with database.reading() as session:
        states = [queries.fetch_event(session, inbox_id=row.id).status for row in rows]
    assert states == ["processed", "processed", "received", "received"]


@dataclass
class Time:
    """Stand-in for the `time` module: only events (0.1 s each) and sleep advance the clock."""

    now: float = 1_000.0
    slept: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


@pytest.mark.parametrize(
    ("rate", "slept"), [(None, 0.0), (2, 0.4 * 4), (10, 0.0), (1_000, 0.0), (0.5, 1.9 * 4)]
)
def test_bulk_replay_stays_within_the_rate_limit(
    services: Services,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    rate: float | None,
    slept: float,
) -> None:
    time = Time()
    monkeypatch.setattr(webhook_replay, "time", time)

    def take_a_while() -> datetime:
        time.now += 0.1
        return NOW

    rows = [make_event(database) for _ in range(5)]
    run = replay_all(replace(services, clock=take_a_while), rows, dry_run=True, rate=rate, by_cause=True)

    assert len(run.replayed) == 5
    assert time.slept == pytest.approx(slept)


def test_completed_stage_prints_only_the_number_of_events(
    services: Services, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run = replay_all(services, [make_event(database)], dry_run=True, rate=None, by_cause=True)

    assert (run.interruption, len(run.replayed)) == (None, 1)
    assert "not tried yet: 1 (" in capsys.readouterr().err
