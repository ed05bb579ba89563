"""The table of periodic tasks and the worker command."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text

from marketplace.background.schedule import LEASE, OTHER_QUEUES_DELAY
from marketplace.idempotency import operations as idempotency
from marketplace.idempotency.operations import KeyScope
from marketplace.identity import phone_verification
from marketplace.identity.models import PhoneCode
from marketplace.identity.operations import create_profile
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.services import Services
from tasks import worker
from tasks.all_tasks import PERIODIC_TASKS, UnknownPeriodicTaskError, get_periodic_task
from tasks.dispatcher import SWEEP_GRACE, Dispatcher, QueueSweepResult
from tasks.scheduler import format_result
from tests.support.gateway import MovableClock
from tests.support.purchases import make_product, make_shop, place, status_of

# Earlier than the rows of other tests, so that a task as of this time processes only its own rows.
EARLY = datetime(2001, 1, 1, tzinfo=UTC)


def run_now(name: str, services: Services, relay: Dispatcher, *, now: datetime) -> Any:
    """Run a task as of a time, regardless of the schedule."""
    return get_periodic_task(name).run(services, relay, now)


def test_each_periodic_task_has_name_purpose_queue_and_schedule() -> None:
    names = [task.name for task in PERIODIC_TASKS]

    assert len(set(names)) == len(names)
    assert {"expire-checkouts", "relay-inbox", "relay-outbox", "check-invariants"} <= set(names)
    for task in PERIODIC_TASKS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", task.name)
        assert task.purpose
        assert not task.purpose.endswith(".")
        assert task.queue in queues.NAMES
        assert task.schedule.text == task.schedule_text


def test_tasks_that_move_money_run_at_least_every_minute() -> None:
    for name in ("expire-checkouts", "relay-inbox", "relay-outbox"):
        assert get_periodic_task(name).schedule.next_after(EARLY) - EARLY <= timedelta(minutes=1)


def test_rows_of_killed_worker_are_resumed_within_a_minute() -> None:
    """Also if the killed worker was running the sweep that resumes the rows."""
    for name in ("relay-inbox", "relay-outbox"):
        period = get_periodic_task(name).schedule.next_after(EARLY) - EARLY
        assert SWEEP_GRACE + LEASE + OTHER_QUEUES_DELAY + period <= timedelta(seconds=55)


def test_unknown_periodic_task_is_refused_with_known_names() -> None:
    with pytest.raises(UnknownPeriodicTaskError, match=r"sweep-the-floor; use one of anchor-audit-trail, "):
        get_periodic_task("sweep-the-floor")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "done"),
        (3, "3"),
        (QueueSweepResult(enqueued=2, processed_inline=1), "enqueued 2, processed inline 1"),
    ],
)
def test_task_result_is_formatted_briefly(result: object, words: str) -> None:
    assert format_result(result) == words


@pytest.mark.parametrize("name", [task.name for task in PERIODIC_TASKS])
def test_each_periodic_task_runs_without_rows(
    relay: Dispatcher, paying_services: Services, clock: MovableClock, name: str
) -> None:
    """The time is earlier than all rows."""
    database = paying_services.database
    try:
        result = run_now(name, paying_services, relay, now=EARLY - timedelta(days=1))
    finally:
        # Rows of other tests may violate invariants and halt payouts. Remove the halt for later tests.
        with database.transaction() as session:
            session.execute(text("DELETE FROM payout_halts WHERE halted_at < :early"), {"early": EARLY})
            session.execute(text("DELETE FROM alerts WHERE raised_at < :early"), {"early": EARLY})

    assert result is not None
    if name == "check-invariants":
        assert result == 0


def test_task_runs_as_of_given_time(
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


def test_idempotency_keys_are_deleted_after_a_day(
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


def test_phone_codes_are_deleted_after_two_days(
    relay: Dispatcher, paying_services: Services, database: Database
) -> None:
    user_id = uuid4()
    database.in_transaction(create_profile, user_id=user_id, email=None, name=None, now=EARLY)
    database.in_transaction(
        phone_verification.issue_code,
        user_id=user_id,
        phone="+2348030000001",
        key="of-the-tests-only",
        now=EARLY,
    )

    def kept() -> int:
        with database.reading() as session:
            return session.scalar(select(func.count()).where(PhoneCode.user_id == user_id)) or 0

    run_now("sweep-retention", paying_services, relay, now=EARLY + timedelta(days=2))
    assert kept() == 1
    run_now("sweep-retention", paying_services, relay, now=EARLY + timedelta(days=2, seconds=1))
    assert kept() == 0


class TestWorkerCommand:
    @pytest.mark.parametrize("arguments", [[], ["payments"], ["webhooks", "notifications"]], ids=repr)
    def test_wrong_arguments_print_usage(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert worker.main(arguments) == 2

        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == f"usage: python -m tasks.worker QUEUE, one of {', '.join(queues.NAMES)}\n"

    def test_missing_settings_are_printed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("ENVIRONMENT", "production")

        assert worker.main(["webhooks"]) == 2

        assert "DATABASE_URL is missing" in capsys.readouterr().err
