"""Idempotency keys under concurrency: requests in progress, simultaneous, taken over and interrupted."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.services import Services
from tests.support.idempotency_counter import Counter, Pause, QuarantinedError
from tests.support.market import Bearer
from tests.support.probes import WAIT_SECONDS, assert_problem, at_once, eventually, faults

PATHS = ["required", "phased"]


@pytest.fixture
def counter(services: Services) -> Counter:
    return Counter(services)


@pytest.fixture
def headers(bearer: Bearer) -> dict[str, str]:
    return bearer(uuid4())


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def send_and_pause(
    counter: Counter, thread: ThreadPoolExecutor, *arguments: Any
) -> tuple[Pause, "Future[Any]"]:
    """Send a request from another thread and pause between the effect and the commit."""
    pause = Pause()
    counter.after = pause
    sent = thread.submit(partial(counter.send, *arguments, client=counter.another_client()))
    pause.wait()
    return pause, sent


def early_effects(path: str) -> int:
    """Return the number of effects that a request to the path commits before the last phase."""
    return 1 if path == "phased" else 0


@pytest.mark.parametrize("path", PATHS)
def test_repeated_request_is_refused_while_first_is_in_progress(
    counter: Counter, headers: dict[str, str], thread: ThreadPoolExecutor, path: str
) -> None:
    key = uuid4()
    pause, sent = send_and_pause(counter, thread, path, key, headers)
    try:
        refused = counter.send(path, key, headers)
        body = assert_problem(refused, 409, "CONCURRENCY_CONFLICT")
        assert "already in progress" in body["detail"]
        assert refused.headers["Retry-After"] == "5"
        counter.later(100)
        assert counter.send(path, key, headers).headers["Retry-After"] == "5"
        counter.later(19.5)
        assert counter.send(path, key, headers).headers["Retry-After"] == "1"
        assert faults(counter.send(path, key, headers, {"amount": 2})) == ["Idempotency-Key"]
        assert counter.send(path, uuid4(), headers).status_code // 100 == 2
    finally:
        pause.end()
    first = sent.result(WAIT_SECONDS)
    assert first.status_code // 100 == 2
    assert counter.send(path, key, headers).get_data() == first.get_data()
    assert counter.effects.count() == 2 + 2 * early_effects(path)


@pytest.mark.parametrize("path", PATHS)
def test_simultaneous_requests_with_same_key_have_single_effect(
    counter: Counter, headers: dict[str, str], path: str
) -> None:
    key = uuid4()
    send = [partial(counter.send, path, key, headers, client=counter.another_client()) for _ in range(8)]
    answers = at_once(send)
    done = [answer for answer in answers if answer.status_code // 100 == 2]
    assert done
    assert len({answer.get_data() for answer in done}) == 1
    assert [answer.headers.get("X-Cache-Lookup") for answer in done].count(None) == 1
    for answer in answers:
        if answer not in done:
            assert_problem(answer, 409, "CONCURRENCY_CONFLICT")
            assert int(answer.headers["Retry-After"]) >= 1
    assert (counter.calls, counter.effects.count()) == (1, 1 + early_effects(path))
    assert counter.send(path, key, headers).get_data() == done[0].get_data()


@pytest.mark.parametrize("path", PATHS)
def test_second_request_takes_over_after_two_minutes_and_first_rolls_back(
    counter: Counter, headers: dict[str, str], thread: ThreadPoolExecutor, path: str
) -> None:
    key = uuid4()
    pause, sent = send_and_pause(counter, thread, path, key, headers)
    try:
        counter.later(119.999)
        assert counter.send(path, key, headers).status_code == 409
        counter.later(0.001)
        second = counter.send(path, key, headers)
        assert second.status_code // 100 == 2
        assert "X-Cache-Lookup" not in second.headers
    finally:
        pause.end()
    first = sent.result(WAIT_SECONDS)
    assert "took over" in assert_conflict(first)
    assert counter.effects.count() == 1 + 2 * early_effects(path)
    replay = counter.send(path, key, headers)
    assert (replay.get_data(), replay.headers["X-Cache-Lookup"]) == (second.get_data(), "HIT")


def assert_conflict(response: Any) -> str:
    assert (response.status_code, response.json["code"]) == (409, "CONCURRENCY_CONFLICT")
    assert "Retry-After" not in response.headers
    return str(response.json["detail"])


@pytest.mark.parametrize(
    "error",
    [NotFoundError(), ConflictError(), QuarantinedError(), RuntimeError()],
    ids=lambda e: type(e).__name__,
)
def test_taken_over_request_neither_stores_response_nor_frees_key(
    counter: Counter, headers: dict[str, str], thread: ThreadPoolExecutor, error: Exception
) -> None:
    key = uuid4()
    counter.error = error
    pause, sent = send_and_pause(counter, thread, "required", key, headers)
    try:
        counter.later(120)
        second = counter.send("required", key, headers)
        assert second.status_code == 201
    finally:
        pause.end()
    assert sent.result(WAIT_SECONDS).status_code in (404, 409, 422, 500)
    assert counter.effects.count() == 1
    assert counter.send("required", key, headers).get_data() == second.get_data()


def kill_connection(counter: Counter) -> None:
    """Terminate every server connection with an open transaction that wrote an effect."""
    with counter.services.database.reading() as session:
        killed = session.execute(
            text(
                """
                SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%campuses%'
                """
            )
        ).all()
    assert killed


@pytest.mark.parametrize("path", PATHS)
def test_request_interrupted_before_commit_has_no_effect_or_stored_response(
    counter: Counter, headers: dict[str, str], path: str
) -> None:
    key = uuid4()
    counter.after = partial(kill_connection, counter)
    cut = counter.send(path, key, headers)
    assert_problem(cut, 503, "SERVICE_UNAVAILABLE")
    assert counter.effects.count() == early_effects(path)
    retried = counter.send(path, key, headers, {"amount": 2})
    assert retried.status_code // 100 == 2
    assert counter.effects.count() == 1 + 2 * early_effects(path)


def test_lease_of_killed_process_expires_after_two_minutes(counter: Counter, headers: dict[str, str]) -> None:
    key = uuid4()
    process = os.fork()
    if process == 0:
        try:
            counter.services.database.dispose()
            counter.after = partial(os.kill, os.getpid(), signal.SIGKILL)
            counter.send("required", key, headers)
        finally:
            os._exit(1)
    _, status = eventually(lambda: (found := os.waitpid(process, os.WNOHANG))[0] and found)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert counter.effects.count() == 0
    assert_problem(counter.send("required", key, headers), 409, "CONCURRENCY_CONFLICT")
    counter.later(120)
    assert counter.send("required", key, headers).status_code == 201
    assert counter.effects.count() == 1


@pytest.mark.parametrize("path", PATHS)
def test_effect_and_stored_response_commit_in_same_transaction(
    counter: Counter, headers: dict[str, str], path: str
) -> None:
    key = uuid4()
    assert counter.send(path, key, headers).status_code // 100 == 2
    with counter.services.database.reading() as session:
        rows = session.execute(
            text(
                """
                SELECT count(*) FROM idempotency_keys k, campuses c
                WHERE k.key = :key AND c.name = :name AND k.xmin = c.xmin AND k.completed_at IS NOT NULL
                """
            ),
            {"key": str(key), "name": counter.effects.name},
        ).scalar_one()
    assert rows == 1


def test_final_refusal_and_kept_changes_commit_in_same_transaction(
    counter: Counter, headers: dict[str, str]
) -> None:
    key = uuid4()
    counter.error = QuarantinedError()
    assert counter.send("required", key, headers).status_code == 422
    with counter.services.database.reading() as session:
        rows = session.execute(
            text(
                """
                SELECT count(*) FROM idempotency_keys k, campuses c
                WHERE k.key = :key AND c.name = :name AND k.xmin = c.xmin AND k.response_status = 422
                """
            ),
            {"key": str(key), "name": counter.effects.name},
        ).scalar_one()
    assert rows == 1
