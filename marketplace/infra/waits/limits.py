"""The longest waits for an answer of the database."""

from contextvars import ContextVar
from dataclasses import dataclass

# The time-outs that the server keeps in every session, in seconds.
STATEMENT_TIMEOUT_SECONDS = 30
LOCK_TIMEOUT_SECONDS = 10
# The client waits longer than the server does, so that a living server reports its time-outs itself.
_MARGIN_SECONDS = 1.0
# A wait for a statement that may run until the server's statement time-out, in seconds.
LONG_WAIT_SECONDS = STATEMENT_TIMEOUT_SECONDS + _MARGIN_SECONDS

# The wait that the current request's route declares, in seconds. None means the limit of the kind of session.
declared_wait_seconds: ContextVar[float | None] = ContextVar("declared_wait_seconds", default=None)


@dataclass(frozen=True)
class WaitLimits:
    """The longest wait for one answer, in seconds: of a connect, in autocommit, and in a transaction.

    With ``detects_hangs`` a slow answer starts a probe, and an unanswered probe ends all waits of the process.
    ``scale`` multiplies the limits, also declared ones and those of probes.
    """

    connect_seconds: float
    read_seconds: float
    write_seconds: float
    detects_hangs: bool
    scale: int = 1


def web_limits(scale: int) -> WaitLimits:
    """Return the limits of web processes, where a client waits for the response."""
    return WaitLimits(
        connect_seconds=1.0,
        read_seconds=1.0,
        write_seconds=LOCK_TIMEOUT_SECONDS + _MARGIN_SECONDS,
        detects_hangs=True,
        scale=scale,
    )


# A worker can do nothing without the database, so only a lost answer matters, not a fast refusal.
WORKER_LIMITS = WaitLimits(
    connect_seconds=10.0,
    read_seconds=STATEMENT_TIMEOUT_SECONDS + 5.0,
    write_seconds=STATEMENT_TIMEOUT_SECONDS + 5.0,
    detects_hangs=False,
)
