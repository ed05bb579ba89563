"""The table of periodic tasks, and the worker that runs them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.idempotency import operations as idempotency
from marketplace.idempotency.operations import KeyScope
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.services import Services
from tasks import worker
from tasks.all_tasks import PERIODIC_TASKS, UnknownPeriodicTaskError, get_periodic_task
from tasks.dispatcher import SWEEP_GRACE, Dispatcher, QueueSweepResult
from tasks.scheduler import LOST_AFTER_SECONDS, SCHEDULE_POLL_SECONDS, format_result
from tests.support.gateway import MovableClock
from tests.support.purchases import make_product, make_shop, place, status_of

# Before all that other tests made, so that a task run as of then is at its own rows alone.
EARLY = datetime(2001, 1, 1, tzinfo=UTC)


def run_now(name: str, services: Services, relay: Dispatcher, *, now: datetime) -> Any:
    """Run a task as of a time, past the schedule."""
    return get_periodic_task(name).run(services, relay, now)


def test_each_has_a_name_a_purpose_a_queue_and_a_time() -> None:
    names = [task.name for task in PERIODIC_TASKS]

    assert len(set(names)) == len(names)
    assert {"expire-checkouts", "relay-inbox", "relay-outbox", "check-invariants"} <= set(names)
    for task in PERIODIC_TASKS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", task.name)
        assert task.purpose
        assert not task.purpose.endswith(".")
        assert task.queue in queues.NAMES
        assert task.schedule.text == task.schedule_text


def test_what_money_waits_for_runs_every_minute_at_least() -> None:
    for name in ("expire-checkouts", "relay-inbox", "relay-outbox"):
        assert get_periodic_task(name).schedule.next_after(EARLY) - EARLY <= timedelta(minutes=1)


def test_a_killed_workers_rows_are_taken_up_within_a_minute() -> None:
    """Even if the worker that was killed had begun the very sweep that is to take them up."""
    for name in ("relay-inbox", "relay-outbox"):
        period = get_periodic_task(name).schedule.next_after(EARLY) - EARLY
        noticed = timedelta(seconds=LOST_AFTER_SECONDS + SCHEDULE_POLL_SECONDS)
        assert SWEEP_GRACE + noticed + period <= timedelta(seconds=55)


def test_an_unknown_one_is_refused_naming_those_there_are() -> None:
    with pytest.raises(UnknownPeriodicTaskError, match=r"sweep-the-floor; use one of apply-proposals, "):
        get_periodic_task("sweep-the-floor")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "done"),
        (3, "3"),
        (QueueSweepResult(enqueued=2, processed_inline=1), "enqueued 2, processed inline 1"),
    ],
)
def test_what_one_did_is_told_in_a_few_words(result: object, words: str) -> None:
    assert format_result(result) == words


@pytest.mark.parametrize("name", [task.name for task in PERIODIC_TASKS])
def test_each_runs(relay: Dispatcher, paying_services: Services, clock: MovableClock, name: str) -> None:
    """As of a time when nothing was there yet."""
    database = paying_services.database
    try:
        result = run_now(name, paying_services, relay, now=EARLY - timedelta(days=1))
    finally:
        # What other tests left is no whole set of books, for which payouts are halted: theirs go on.
        with database.transaction() as session:
            session.execute(text("DELETE FROM payout_halts WHERE halted_at < :early"), {"early": EARLY})
            session.execute(text("DELETE FROM alerts WHERE raised_at < :early"), {"early": EARLY})

    assert result is not None
    if name == "check-invariants":
        assert result == 0


def test_one_may_be_run_as_of_a_time(
    relay: Dispatcher, paying_services: Services, database: Database, clock: MovableClock
) -> None:
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = place(session, shop, make_product(session, shop), now=EARLY)

    run_now("expire-checkouts", paying_services, relay, now=EARLY + timedelta(minutes=29))
    with database.reading() as session:
        assert status_of(session, order_id) == "pending_payment"
    run_now("expire-checkouts", paying_services, relay, now=EARLY + timedelta(minutes=30))
    with database.reading() as session:
        assert status_of(session, order_id) == "expired"


def test_keys_are_deleted_after_their_day(
    relay: Dispatcher, paying_services: Services, database: Database
) -> None:
    scope = KeyScope(caller=uuid4().hex, method="POST", path="/x", key=str(uuid4()), request_hash="x")
    database.in_transaction(idempotency.acquire_key, scope=scope, now=EARLY)

    def kept() -> int:
        with database.reading() as session:
            found: int = session.execute(
                text("SELECT count(*) FROM idempotency_keys WHERE caller = :caller"), {"caller": scope.caller}
            ).scalar_one()
            return found

    run_now("purge-idempotency-keys", paying_services, relay, now=EARLY + timedelta(hours=23, minutes=59))
    assert kept() == 1
    run_now("purge-idempotency-keys", paying_services, relay, now=EARLY + timedelta(hours=24))
    assert kept() == 0


class TestTheWorkersCommand:
    @pytest.mark.parametrize("arguments", [[], ["payments"], ["webhooks", "notifications"]], ids=repr)
    def test_it_tells_how_it_is_used(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert worker.main(arguments) == 2

        told = capsys.readouterr()
        assert told.out == ""
        assert told.err == f"usage: python -m tasks.worker QUEUE, one of {', '.join(queues.NAMES)}\n"

    def test_it_tells_what_is_missing(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("ENVIRONMENT", "production")

        assert worker.main(["webhooks"]) == 2

        assert "DATABASE_URL is missing" in capsys.readouterr().err
