"""Commands ``marketplace periodic``, ``queues`` and ``workers``: output, effects and refusals."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.installation import Installation, query, start_installation
from tests.support.servers import Addresses

TASK = "purge-statistics"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Installation]:
    directory: Path = tmp_path_factory.mktemp("installation")
    with start_installation(directory, addresses) as one:
        yield one


@pytest.fixture(autouse=True)
def no_task_states(installation: Installation) -> None:
    """Remove the schedules and runs of other tests."""
    query(installation.database_url, "DELETE FROM periodic_tasks")


def line(installation: Installation, name: str = TASK) -> dict[str, str]:
    """Return the row of a task from `periodic list`, by column."""
    head, *lines = installation.ok("periodic", "list").splitlines()
    [found] = [one for one in lines if one.startswith(f"{name}\t")]
    return dict(zip(head.split("\t"), found.split("\t"), strict=True))


def row(installation: Installation, name: str = TASK) -> dict[str, Any]:
    [(found,)] = query(
        installation.database_url, "SELECT to_jsonb(t) FROM periodic_tasks t WHERE name = %s", name
    )
    made: dict[str, Any] = found
    return made


def refused(done: subprocess.CompletedProcess[str], *said: str, status: int) -> None:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    for words in said:
        assert words in " ".join(done.stderr.split()), done.stderr


def test_tasks_are_listed_before_the_first_worker_starts(installation: Installation) -> None:
    shown = line(installation)
    assert (shown["When"], shown["Last run"], shown["Now"]) == ("each hour at minute 47", "", "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:47:00\.000Z", shown["Next run"])


def test_manual_run_is_reported_and_recorded(installation: Installation) -> None:
    output = installation.ok("periodic", "run", TASK)

    assert re.fullmatch(rf"{TASK} ran in \d+\.\d s: 0\n", output)
    found = line(installation)
    assert (found["Outcome"], found["Now"]) == ("succeeded", "")
    assert found["Last run"].endswith("Z")
    assert found["Took"].endswith(" s")
    shown = installation.ok("periodic", "show", TASK)
    assert "runs\t1\n" in shown
    assert "result\t0\n" in shown


def test_task_is_paused_and_resumed(installation: Installation) -> None:
    assert "is paused" in installation.ok("periodic", "pause", TASK)
    assert "is already paused" in installation.ok("periodic", "pause", TASK)
    assert (line(installation)["Now"], line(installation)["Next run"]) == ("paused", "")

    # A manual run works also while the task is paused.
    installation.ok("periodic", "run", TASK)
    assert re.search(r"runs next at \d{4}-\d\d-\d\d \d\d:47:00Z", installation.ok("periodic", "resume", TASK))
    assert "is not paused" in installation.ok("periodic", "resume", TASK)

    acts = query(
        installation.database_url,
        "SELECT action, actor FROM audit_logs WHERE target_id = %s ORDER BY id",
        TASK,
    )
    assert [action for action, _ in acts][-3:] == ["periodic.pause", "periodic.run", "periodic.resume"]
    assert all(actor.startswith("operator ") for _, actor in acts)
    installation.ok("audit", "verify")


@pytest.mark.parametrize(
    ("when", "words", "kept"),
    [
        (("*/10 * * * *",), "every 10 minutes", "*/10 * * * *"),
        (("every", "30s"), "every 30 seconds", "every 30s"),
        (("30", "2", "*", "*", "mon-fri"), "30 2 * * mon-fri (UTC)", "30 2 * * mon-fri"),
        (("--default",), "each hour at minute 47", None),
    ],
)
def test_schedule_is_overridden_and_reset(
    installation: Installation, when: tuple[str, ...], words: str, kept: str | None
) -> None:
    output = installation.ok("periodic", "schedule", TASK, *when)

    assert f"{TASK} runs {words}, next at " in output
    assert row(installation)["timetable"] == kept
    assert line(installation)["When"] == (f"{words} (override)" if kept else words)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("schedule", TASK, "61 * * * *"), ("'61' is not a valid minute (0 to 59)", "*/5 * * * *")),
        (("schedule", TASK, "* * *"), ("A crontab expression has 5 fields, but '* * *' has 3.", "every 15s")),
        (("schedule", TASK, "0 0 31 2 *"), ("never occurs",)),
        (("schedule", TASK, "every", "1s"), ("is not between 5 seconds and 31 days",)),
        (("schedule", TASK), ("Give either WHEN", "every 15s")),
        (("schedule", TASK, "every 1h", "--default"), ("Give either WHEN",)),
        (("schedule", "nothing", "every 1h"), ("expire-checkouts",)),
        (("pause", "nothing"), ("expire-checkouts",)),
        (("resume",), ("Missing argument",)),
        (("run", TASK, "--wait", "-1"), ("--wait",)),
        (("show", "'; DROP TABLE"), ("relay-inbox",)),
    ],
)
def test_invalid_arguments_are_refused_with_an_example(
    installation: Installation, arguments: tuple[str, ...], said: tuple[str, ...]
) -> None:
    refused(installation.run("periodic", *arguments), *said, status=2)


def test_running_periodic_task_is_not_started_twice(installation: Installation) -> None:
    installation.ok("periodic", "run", TASK)
    query(
        installation.database_url,
        "UPDATE periodic_tasks SET run_id = %s, run_by = 'webhooks@elsewhere:7', started_at = now(),"
        " lease_until = now() + interval '8 seconds' WHERE name = %s",
        str(uuid4()),
        TASK,
    )
    assert line(installation)["Now"] == "running"

    done = installation.run("periodic", "run", TASK, "--wait", "1")
    refused(done, "has been running on webhooks@elsewhere:7 since", "--wait", status=1)

    # The recorded process does not renew the lease.
    output = installation.ok("periodic", "run", TASK, "--wait", "60")
    assert f"{TASK} ran in" in output
    assert (row(installation)["run_id"], row(installation)["runs"]) == (None, 3)


def test_failed_task_ends_with_status_1_and_the_cause(installation: Installation) -> None:
    query(installation.database_url, "ALTER TABLE product_statistics RENAME TO elsewhere")
    try:
        refused(installation.run("periodic", "run", TASK), "lacks a table", status=1)
    finally:
        query(installation.database_url, "ALTER TABLE elsewhere RENAME TO product_statistics")
    found = row(installation)
    assert (found["outcome"], found["run_id"]) == ("failed", None)
    assert "42P01" in found["error"]
    assert "failed" in line(installation)["Outcome"]


def test_queues_are_listed_with_and_without_the_cache(installation: Installation) -> None:
    head, *lines = installation.ok("queues").splitlines()
    assert head.split("\t")[:5] == ["Queue", "Waiting", "Active", "Failed", "Completed"]
    assert [one.split("\t")[0] for one in lines] == [
        "notifications",
        "webhooks",
        "escrow-reconciliation",
        "ai-moderation",
    ]

    away = installation.run("queues", REDIS_URL="redis://127.0.0.1:1/0")
    assert away.returncode == 0
    assert len(away.stdout.splitlines()) == 5
    assert "current work of workers is unknown" in away.stderr


def test_workers_are_listed_and_unavailable_cache_is_reported(installation: Installation) -> None:
    done = installation.run("workers")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    refused(
        installation.run("workers", REDIS_URL="redis://127.0.0.1:1/0"),
        "The cache can't be reached",
        status=1,
    )


def test_unavailable_or_empty_database_is_reported(installation: Installation) -> None:
    away = "postgresql://nobody@127.0.0.1:1/nothing"
    for command in (("periodic", "list"), ("periodic", "pause", TASK), ("queues",)):
        refused(installation.run(*command, DATABASE_URL=away), "can't be reached", status=1)
    empty = installation.create_database("empty")
    refused(installation.run("periodic", "list", DATABASE_URL=empty), "marketplace db upgrade", status=1)
