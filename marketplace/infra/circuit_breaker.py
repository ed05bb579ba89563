"""A circuit breaker for providers that may hang: a hanging provider holds up one thread of a process, not all.

Each process keeps its own state, and finds out for itself that a provider is down.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from marketplace.infra.outbox import RetryLaterError
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ProviderUnavailableError

# So long nobody asks after a failure; then one does, to see.
OPEN_DURATION = timedelta(seconds=10)
# And so long one waits for who is before him, who is done in a fraction of it where all is well.
_TURN_TIMEOUT_SECONDS = 1.0


class CircuitOpenError(RetryLaterError):
    """The provider failed just now, or somebody waits for it already."""


class CircuitBreaker:
    """One call at a time, and none for a while after a failure.

    :param response_errors: errors that show that the provider answered: they close the circuit again
    """

    def __init__(self, *, response_errors: tuple[type[Exception], ...]) -> None:
        self._response_errors = response_errors
        self._call_lock = threading.Lock()
        self._opened_at: datetime | None = None
        # Whoever has the turn has had it for long, or is the first after a failure: nobody waits for him.
        self._is_suspect = False

    @contextmanager
    def guard(self, clock: Clock) -> Iterator[None]:
        """Let the caller through, unless that might take long.

        :param clock: tells when a call failed, and whether that is long ago
        :raises CircuitOpenError: at once, or after a second: this is to be put off
        :raises ProviderUnavailableError: as the caller raised it, which opens the circuit for a while
        """
        self._ensure_closed(clock)
        if not self._call_lock.acquire(timeout=0 if self._is_suspect else _TURN_TIMEOUT_SECONDS):
            self._is_suspect = True
            raise CircuitOpenError(OPEN_DURATION)
        try:
            # Who was before may have failed meanwhile.
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
