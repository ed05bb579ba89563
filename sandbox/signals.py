"""Waiting that a request to stop (Ctrl-C, SIGTERM, a closed terminal) ends at once."""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequestedError(Exception):
    """Somebody asked this process to stop; the message is the signal's name."""


class StopSignals:
    """Collects signals while it is entered; only ``pause`` acts on them, so no step is cut in the middle."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1

    def __enter__(self) -> Self:
        """Take over the signals of this process."""
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: started by nohup
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
        """Give the signals back."""
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)

    def pause(self, seconds: float) -> None:
        """Sleep, at most so many seconds.

        :raises StopRequestedError: a signal came, before or meanwhile
        """
        readable, _, _ = select.select([self._read_end], [], [], seconds)
        if readable:
            number = os.read(self._read_end, 64)[0]
            raise StopRequestedError(signal.Signals(number).name)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the signal's number to the pipe."""
