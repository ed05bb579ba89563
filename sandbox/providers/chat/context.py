"""The chat's state: received messages and planned outcomes."""

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
    """The running chat. Messages and planned outcomes live in memory.

    :param hang_seconds: duration of a call with the outcome ``timeout``
    :param stopping: set when the server stops, which ends hanging calls
    """

    hang_seconds: float
    stopping: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: deque[Outcome] = field(default_factory=deque)
    _messages: deque[Mapping[str, str]] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _calls: int = 0

    def plan(self, outcome: Outcome, count: int) -> bool:
        """Plan an outcome for the next calls, and return whether the plan had room."""
        with self._lock:
            if len(self._next) + count > MAXIMUM_OUTCOMES:
                return False
            self._next.extend([outcome] * count)
            return True

    def forget(self) -> None:
        """Drop unused planned outcomes and received messages."""
        with self._lock:
            self._next.clear()
            self._messages.clear()
            self._calls = 0

    def take(self) -> Outcome:
        """Count a call and take the next planned outcome, ``taken`` by default."""
        with self._lock:
            self._calls += 1
            return self._next.popleft() if self._next else "taken"

    def keep(self, text: str, at: str) -> None:
        """Store a message."""
        with self._lock:
            self._messages.append({"at": at, "text": text})

    def told(self) -> tuple[int, list[Mapping[str, str]]]:
        """Return the number of calls and the latest messages, oldest first."""
        with self._lock:
            return self._calls, list(self._messages)


def current_chat() -> Chat:
    """Return the chat of the current request."""
    chat = current_app.extensions["sandbox_chat"]
    if not isinstance(chat, Chat):
        raise TypeError("the application has no chat")
    return chat
