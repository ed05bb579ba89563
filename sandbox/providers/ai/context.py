"""What the AI provider takes amiss, what its next answers are, and what it was asked."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flask import current_app

Outcome = Literal["clean", "flagged", "error", "refused", "garbled", "timeout"]
OUTCOMES: tuple[Outcome, ...] = ("clean", "flagged", "error", "refused", "garbled", "timeout")
MAXIMUM_OUTCOMES = 1_000
_LATEST = 100

# By category, as the real ones name them: a few words that no honest listing holds.
WORDS: Mapping[str, tuple[str, ...]] = {
    "harassment": ("worthless idiot", "you are scum"),
    "hate": ("subhuman tribe", "inferior tribe"),
    "self-harm": ("ways to end your life", "suicide kit"),
    "sexual": ("xxx video", "sex tape"),
    "violence": ("beat him up for you", "i will kill"),
    "illicit": ("hack any account", "money doubling"),
}


@dataclass(frozen=True, kw_only=True)
class Next:
    """What an answer will be, whatever is asked."""

    outcome: Outcome
    categories: tuple[str, ...] = ()


@dataclass
class Provider:
    """The running provider; what scripts set and ask about is kept in memory, as long as it runs.

    :param key: what callers authenticate with; empty lets anybody in
    :param hang_seconds: how long a call with the outcome ``timeout`` stays unanswered
    :param stopping: set when the server stops, so that nothing hangs on
    """

    key: str
    hang_seconds: float
    stopping: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: deque[Next] = field(default_factory=deque)
    _texts: deque[str] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _calls: int = 0

    def plan(self, one: Next, count: int) -> bool:
        """Set what so many next answers are, and tell whether there was room for them."""
        with self._lock:
            if len(self._next) + count > MAXIMUM_OUTCOMES:
                return False
            self._next.extend([one] * count)
            return True

    def planned(self) -> list[Next]:
        """List what is set, in the order in which it will be used."""
        with self._lock:
            return list(self._next)

    def forget(self) -> None:
        """Drop what was set and not used, and what was asked."""
        with self._lock:
            self._next.clear()
            self._texts.clear()
            self._calls = 0

    def take(self, text: str) -> Next | None:
        """Count a call, and use up one of what was set, if anything is."""
        with self._lock:
            self._calls += 1
            self._texts.append(text)
            return self._next.popleft() if self._next else None

    def asked(self) -> tuple[int, list[str]]:
        """Tell how often it was asked, and give the latest texts."""
        with self._lock:
            return self._calls, list(self._texts)


def current_provider() -> Provider:
    """Return the provider that the request at hand is for."""
    provider = current_app.extensions["sandbox_ai"]
    if not isinstance(provider, Provider):
        raise TypeError("the application has no AI provider")
    return provider


def categories_of(text: str) -> list[str]:
    """Name what is amiss with a text by the words that it holds."""
    folded = " ".join(text.casefold().split())
    return [category for category, words in WORDS.items() if any(word in folded for word in words)]
