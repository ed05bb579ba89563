"""The AI provider's state: planned outcomes, recorded calls, and flagged words."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from flask import current_app

Outcome = Literal["clean", "flagged", "error", "refused", "garbled", "timeout"]
OUTCOMES: tuple[Outcome, ...] = ("clean", "flagged", "error", "refused", "garbled", "timeout")
CompletionOutcome = Literal["error", "refused", "limited", "timeout", "broken", "garbled", "stalled"]
COMPLETION_OUTCOMES: tuple[CompletionOutcome, ...] = (
    *("error", "refused", "limited", "timeout", "broken", "garbled", "stalled"),
)
# A token of the stand-in is a word. This is the pace of a fast hosted model.
DEFAULT_TOKENS_PER_SECOND = 200.0
MAXIMUM_OUTCOMES = 1_000
_LATEST = 100

# Flagged words by category, in the naming of real providers. No honest listing contains these words.
WORDS: Mapping[str, tuple[str, ...]] = {
    "harassment": ("worthless idiot", "you are scum"),
    "hate": ("subhuman tribe", "inferior tribe"),
    "self-harm": ("ways to end your life", "suicide kit"),
    "sexual": ("xxx video", "sex tape"),
    "violence": ("beat him up for you", "i will kill"),
    "illicit": ("hack any account", "money doubling"),
}


@dataclass(frozen=True)
class Call:
    """A tool that the stand-in wants to call, with its arguments."""

    name: str
    arguments: dict[str, Any]


# The text and the tool calls of a completion.
Reply = tuple[str, list[Call]]


@dataclass(frozen=True, kw_only=True)
class Next:
    """A planned outcome, used for the next call regardless of content."""

    outcome: Outcome
    categories: tuple[str, ...] = ()


@dataclass
class Provider:
    """The running AI provider. Planned outcomes and recorded calls live in memory.

    :param key: the API key that callers must send; empty means that no key is needed
    :param hang_seconds: duration of a call with the outcome ``timeout``
    :param stopping: set when the server stops, which ends hanging calls
    """

    key: str
    hang_seconds: float
    stopping: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: deque[Next] = field(default_factory=deque)
    _texts: deque[str] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _calls: int = 0
    tokens_per_second: float = DEFAULT_TOKENS_PER_SECOND
    _completion_outcomes: deque[CompletionOutcome] = field(default_factory=deque)
    _replies: deque[Reply] = field(default_factory=deque)
    _prompts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _completions: int = 0
    _open_streams: int = 0

    def plan(self, one: Next, count: int) -> bool:
        """Plan an outcome for the next calls, and return whether the plan had room."""
        with self._lock:
            if len(self._next) + count > MAXIMUM_OUTCOMES:
                return False
            self._next.extend([one] * count)
            return True

    def planned(self) -> list[Next]:
        """List the planned outcomes in the order of use."""
        with self._lock:
            return list(self._next)

    def forget(self) -> None:
        """Drop unused planned outcomes and recorded calls."""
        with self._lock:
            self._next.clear()
            self._texts.clear()
            self._calls = 0

    def take(self, text: str) -> Next | None:
        """Record a call and take the next planned outcome, if any."""
        with self._lock:
            self._calls += 1
            self._texts.append(text)
            return self._next.popleft() if self._next else None

    def asked(self) -> tuple[int, list[str]]:
        """Return the number of calls and the latest texts."""
        with self._lock:
            return self._calls, list(self._texts)

    def plan_completions(self, outcome: CompletionOutcome, count: int) -> bool:
        """Plan an outcome for the next completions, and return whether the plan had room."""
        with self._lock:
            if len(self._completion_outcomes) + count > MAXIMUM_OUTCOMES:
                return False
            self._completion_outcomes.extend([outcome] * count)
            return True

    def take_completion(self) -> CompletionOutcome | None:
        """Take the planned outcome of the next completion, if any."""
        with self._lock:
            return self._completion_outcomes.popleft() if self._completion_outcomes else None

    def plan_replies(self, replies: Sequence[Reply]) -> bool:
        """Plan the text and the tool calls of the next completions, and return whether the plan had room."""
        with self._lock:
            if len(self._replies) + len(replies) > MAXIMUM_OUTCOMES:
                return False
            self._replies.extend(replies)
            return True

    def take_reply(self) -> Reply | None:
        """Take the planned reply of the next completion, if any."""
        with self._lock:
            return self._replies.popleft() if self._replies else None

    def record_prompt(self, body: dict[str, Any]) -> None:
        """Record the body of a completion."""
        with self._lock:
            self._completions += 1
            self._prompts.append(body)

    def streams_changed(self, change: int) -> None:
        """Count a stream that begins (1) or ends (-1)."""
        with self._lock:
            self._open_streams += change

    def completions(self) -> dict[str, Any]:
        """Return the number of completions and of open streams, and the latest bodies."""
        with self._lock:
            return {
                "count": self._completions,
                "openStreams": self._open_streams,
                "prompts": list(self._prompts),
            }

    def forget_completions(self) -> None:
        """Drop planned outcomes and recorded bodies, and restore the pace."""
        with self._lock:
            self._completion_outcomes.clear()
            self._replies.clear()
            self._prompts.clear()
            self._completions = 0
            self.tokens_per_second = DEFAULT_TOKENS_PER_SECOND


def current_provider() -> Provider:
    """Return the AI provider of the current request."""
    provider = current_app.extensions["sandbox_ai"]
    if not isinstance(provider, Provider):
        raise TypeError("the application has no AI provider")
    return provider


def categories_of(text: str) -> list[str]:
    """List the categories of the flagged words in a text."""
    folded = " ".join(text.casefold().split())
    return [category for category, words in WORDS.items() if any(word in folded for word in words)]
