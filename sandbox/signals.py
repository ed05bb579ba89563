"""A wait that a stop request (Ctrl-C, SIGTERM, a closed terminal) interrupts at once."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequestedError(Exception):
    """A signal requested this process to stop. The message is the signal's name."""


class StopSignals:
    """A collector of stop signals. Only ``pause`` acts on signals, so no step is interrupted half-way."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1

    def __enter__(self) -> Self:
        """Install this process's signal handlers."""
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup makes it ignored
            numbers.append(signal.SIGHUP)
        for number in numbers:
            self._previous[number] = signal.signal(number, _noted)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Restore the previous signal handlers."""
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)

    def pause(self, seconds: float) -> None:
        """Sleep for at most the given seconds.

        :raises StopRequestedError: a signal arrived before or during the sleep
        """
        readable, _, _ = select.select([self._read_end], [], [], seconds)
        if readable:
            number = os.read(self._read_end, 64)[0]
            raise StopRequestedError(signal.Signals(number).name)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. The interpreter has already written the signal's number to the pipe."""
