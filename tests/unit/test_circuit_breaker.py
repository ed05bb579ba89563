"""Circuit breaker for calls to a provider that may hang."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from marketplace.infra import circuit_breaker
from marketplace.infra.circuit_breaker import CircuitBreaker, CircuitOpenError
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TIMEOUT_SECONDS = 20


def now() -> datetime:
    return NOW


def later() -> datetime:
    return NOW + circuit_breaker.OPEN_DURATION


def fail(breaker: CircuitBreaker, clock: Callable[[], datetime] = now) -> None:
    with pytest.raises(ProviderUnavailableError), breaker.guard(clock):
        raise ProviderUnavailableError("Down.")


def passed(breaker: CircuitBreaker, clock: Callable[[], datetime] = now) -> bool:
    with breaker.guard(clock):
        return True


def passes_during_first_request(
    breaker: CircuitBreaker, meanwhile: Callable[[], None], *, fails: bool, turn_timeout_seconds: float
) -> bool:
    """Send a second request while the first is inside, and return whether the second passed the breaker."""
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with breaker.guard(now):
            inside.set()
            assert leave.wait(TIMEOUT_SECONDS)
            if fails:
                raise ProviderUnavailableError("Down.")

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert inside.wait(TIMEOUT_SECONDS)
        meanwhile()
        other = pool.submit(passed, breaker)
        if turn_timeout_seconds < TIMEOUT_SECONDS:
            with pytest.raises(CircuitOpenError):
                other.result(TIMEOUT_SECONDS)
        leave.set()
        if fails:
            with pytest.raises(ProviderUnavailableError):
                one.result(TIMEOUT_SECONDS)
        else:
            one.result(TIMEOUT_SECONDS)
        return other.exception(TIMEOUT_SECONDS) is None


@pytest.fixture
def set_turn_timeout(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], float]:
    def take(seconds: float) -> float:
        monkeypatch.setattr(circuit_breaker, "_TURN_TIMEOUT_SECONDS", seconds)
        return seconds

    return take


def test_second_request_waits_for_a_successful_first_request(
    set_turn_timeout: Callable[[float], float],
) -> None:
    seconds = set_turn_timeout(TIMEOUT_SECONDS)

    assert passes_during_first_request(
        CircuitBreaker(response_errors=(ProviderRefusedError,)),
        lambda: None,
        fails=False,
        turn_timeout_seconds=seconds,
    )


def test_request_that_waited_for_a_failed_request_is_refused(
    set_turn_timeout: Callable[[float], float],
) -> None:
    seconds = set_turn_timeout(TIMEOUT_SECONDS)

    assert not passes_during_first_request(
        CircuitBreaker(response_errors=(ProviderRefusedError,)),
        lambda: None,
        fails=True,
        turn_timeout_seconds=seconds,
    )


def test_timed_out_waiting_request_is_refused_and_next_does_not_wait(
    set_turn_timeout: Callable[[float], float],
) -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))

    def time_out_while_waiting() -> None:
        set_turn_timeout(0.01)
        with pytest.raises(CircuitOpenError):
            passed(breaker)
        # A request that still waited would wait longer than this test runs.
        set_turn_timeout(10 * TIMEOUT_SECONDS)

    assert not passes_during_first_request(
        breaker, time_out_while_waiting, fails=False, turn_timeout_seconds=0.01
    )
    assert passed(breaker)


def test_breaker_stays_open_after_failure_until_delay_passes() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)

    with pytest.raises(CircuitOpenError) as closed:
        passed(breaker)

    assert closed.value.delay == circuit_breaker.OPEN_DURATION
    assert passed(breaker, later)


def test_requests_during_half_open_probe_are_refused_without_waiting(
    set_turn_timeout: Callable[[float], float],
) -> None:
    set_turn_timeout(10 * TIMEOUT_SECONDS)
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)
    with breaker.guard(later), pytest.raises(CircuitOpenError):
        passed(breaker, later)

    assert passed(breaker)


def test_refusal_by_provider_closes_the_breaker() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)

    with pytest.raises(ProviderRefusedError), breaker.guard(later):
        raise ProviderRefusedError("chat", 404, "")

    assert passed(breaker)


def test_unexpected_error_leaves_the_breaker_closed() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    with pytest.raises(ZeroDivisionError), breaker.guard(now):
        raise ZeroDivisionError

    assert passed(breaker)
