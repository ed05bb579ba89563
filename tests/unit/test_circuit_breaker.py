"""The circuit breaker before a provider that may hang."""

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


def while_passing(
    breaker: CircuitBreaker, meanwhile: Callable[[], None], *, fails: bool, patience_seconds: float
) -> bool:
    """Have one go through in a thread, another come meanwhile, and tell whether that got through."""
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
        if patience_seconds < TIMEOUT_SECONDS:
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
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], float]:
    def take(seconds: float) -> float:
        monkeypatch.setattr(circuit_breaker, "_TURN_TIMEOUT_SECONDS", seconds)
        return seconds

    return take


def test_where_all_is_well_one_waits_for_the_other(patience: Callable[[float], float]) -> None:
    seconds = patience(TIMEOUT_SECONDS)

    assert while_passing(
        CircuitBreaker(response_errors=(ProviderRefusedError,)),
        lambda: None,
        fails=False,
        patience_seconds=seconds,
    )


def test_who_waited_for_one_that_failed_does_not_ask_as_well(patience: Callable[[float], float]) -> None:
    seconds = patience(TIMEOUT_SECONDS)

    assert not while_passing(
        CircuitBreaker(response_errors=(ProviderRefusedError,)),
        lambda: None,
        fails=True,
        patience_seconds=seconds,
    )


def test_who_waits_in_vain_is_put_off_and_the_next_does_not_wait(patience: Callable[[float], float]) -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))

    def one_waits_in_vain() -> None:
        patience(0.01)
        with pytest.raises(CircuitOpenError):
            passed(breaker)
        # Whoever waited now would wait longer than this test does.
        patience(10 * TIMEOUT_SECONDS)

    assert not while_passing(breaker, one_waits_in_vain, fails=False, patience_seconds=0.01)
    assert passed(breaker)


def test_after_a_failure_nobody_asks_for_a_while() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)

    with pytest.raises(CircuitOpenError) as closed:
        passed(breaker)

    assert closed.value.delay == circuit_breaker.OPEN_DURATION
    assert passed(breaker, later)


def test_while_one_asks_whether_it_is_well_again_the_others_do_not_wait(
    patience: Callable[[float], float],
) -> None:
    patience(10 * TIMEOUT_SECONDS)
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)
    with breaker.guard(later), pytest.raises(CircuitOpenError):
        passed(breaker, later)

    assert passed(breaker)


def test_a_refusal_is_an_answer() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    fail(breaker)

    with pytest.raises(ProviderRefusedError), breaker.guard(later):
        raise ProviderRefusedError("chat", 404, "")

    assert passed(breaker)


def test_whatever_happens_inside_the_next_has_his_turn() -> None:
    breaker = CircuitBreaker(response_errors=(ProviderRefusedError,))
    with pytest.raises(ZeroDivisionError), breaker.guard(now):
        raise ZeroDivisionError

    assert passed(breaker)
