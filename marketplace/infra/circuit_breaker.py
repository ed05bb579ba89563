"""A circuit breaker for slow providers. A hanging provider blocks one thread of a process, not all threads.

The state is per process, so each process detects an outage separately.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from marketplace.infra.outbox import RetryLaterError
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ProviderUnavailableError

# No calls for this time after a failure. Then a single call probes the provider.
OPEN_DURATION = timedelta(seconds=10)
# The maximum wait for the previous caller. A healthy call takes a fraction of this time.
_TURN_TIMEOUT_SECONDS = 1.0


class CircuitOpenError(RetryLaterError):
    """The provider failed a moment ago, or another caller is already waiting for the provider."""


class CircuitBreaker:
    """A circuit breaker that allows one call at a time, and no call for a while after a failure.

    :param response_errors: errors that prove a response from the provider and therefore close the circuit
    """

    def __init__(self, *, response_errors: tuple[type[Exception], ...]) -> None:
        self._response_errors = response_errors
        self._call_lock = threading.Lock()
        self._opened_at: datetime | None = None
        # The current call is slow, or is the first call after a failure. Other callers do not wait.
        self._is_suspect = False

    @contextmanager
    def guard(self, clock: Clock) -> Iterator[None]:
        """Run the caller's block, unless the provider is likely to hang.

        :raises CircuitOpenError: the circuit is open or another call is slow; the caller retries later
        :raises ProviderUnavailableError: raised by the block; opens the circuit for ``OPEN_DURATION``
        """
        self._ensure_closed(clock)
        if not self._call_lock.acquire(timeout=0 if self._is_suspect else _TURN_TIMEOUT_SECONDS):
            self._is_suspect = True
            raise CircuitOpenError(OPEN_DURATION)
        try:
            # The previous call may have failed during the wait.
            self._ensure_closed(clock)
            try:
                yield
            except ProviderUnavailableError:
                self._opened_at, self._is_suspect = clock(), True
                raise
            except self._response_errors:
                self._close()
                raise
            self._close()
        finally:
            self._call_lock.release()

    def _close(self) -> None:
        self._opened_at, self._is_suspect = None, False

    def _ensure_closed(self, clock: Clock) -> None:
        opened_at = self._opened_at
        rest = opened_at + OPEN_DURATION - clock() if opened_at else timedelta(0)
        if rest > timedelta(0):
            raise CircuitOpenError(rest)
