"""What the chat was told, and what its next answers are."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flask import current_app

Outcome = Literal["taken", "error", "refused", "limited", "timeout"]
OUTCOMES: tuple[Outcome, ...] = ("taken", "error", "refused", "limited", "timeout")
MAXIMUM_OUTCOMES = 1_000
_LATEST = 200


@dataclass
class Chat:
    """The running chat; what it was told is kept in memory, as long as it runs.

    :param hang_seconds: how long a call with the outcome ``timeout`` stays unanswered
    :param stopping: set when the server stops, so that nothing hangs on
    """

    hang_seconds: float
    stopping: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: deque[Outcome] = field(default_factory=deque)
    _messages: deque[Mapping[str, str]] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _calls: int = 0

    def plan(self, outcome: Outcome, count: int) -> bool:
        """Set what so many next answers are, and tell whether there was room for them."""
        with self._lock:
            if len(self._next) + count > MAXIMUM_OUTCOMES:
                return False
            self._next.extend([outcome] * count)
            return True

    def forget(self) -> None:
        """Drop what was set and not used, and what was told."""
        with self._lock:
            self._next.clear()
            self._messages.clear()
            self._calls = 0

    def take(self) -> Outcome:
        """Count a call, and use up one of what was set, if anything is."""
        with self._lock:
            self._calls += 1
            return self._next.popleft() if self._next else "taken"

    def keep(self, text: str, at: str) -> None:
        """Keep a message."""
        with self._lock:
            self._messages.append({"at": at, "text": text})

    def told(self) -> tuple[int, list[Mapping[str, str]]]:
        """Tell how often it was called, and give the latest messages, the earliest first."""
        with self._lock:
            return self._calls, list(self._messages)


def current_chat() -> Chat:
    """Return the chat that the request at hand is for."""
    chat = current_app.extensions["sandbox_chat"]
    if not isinstance(chat, Chat):
        raise TypeError("the application has no chat")
    return chat
