"""The time limits of an answer, with a model that waits as long as the test says."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import gevent
import pytest

from marketplace.assistant import answers
from marketplace.assistant.answers import Answer, StreamEvent
from marketplace.assistant.generation import AnswerText
from marketplace.notifications.live_streams import EndReason

FAR = 4_000_000_000.0


class Generation:
    """An answer with waits between its pieces."""

    is_cut = False

    def __init__(self, *pieces: str | float) -> None:
        self.pieces = pieces
        self.is_closed = False

    def events(self) -> Iterator[AnswerText]:
        """Yield the pieces that are texts, and wait for those that are seconds."""
        try:
            for piece in self.pieces:
                if isinstance(piece, str):
                    yield AnswerText(piece)
                else:
                    gevent.sleep(piece)
        finally:
            self.is_closed = True


class Slot:
    """A place that counts its releases."""

    def __init__(self) -> None:
        self.user_id = uuid4()
        self.end_reason: EndReason | None = None
        self.releases = 0

    def keep(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Count the release."""
        self.releases += 1


class Cache:
    """A cache that keeps nothing."""

    def run(self, *_arguments: Any) -> None:
        """Do nothing."""


class Case:
    """An answer with everything around it."""

    def __init__(
        self, *pieces: str | float, expires_at: float = FAR, is_gone: Callable[[], bool] = lambda: False
    ) -> None:
        self.generation, self.slot = Generation(*pieces), Slot()
        self.saved: list[bool] = []
        self.answer = Answer(
            self.generation,  # type: ignore[arg-type]
            self.slot,  # type: ignore[arg-type]
            Cache(),  # type: ignore[arg-type]
            thread_id=uuid4(),
            message_number=2,
            token_expires_at=expires_at,
            is_reader_gone=is_gone,
            save=lambda _generation, is_complete: self.saved.append(is_complete),
        )

    def read(self) -> list[str]:
        """Read all events, and return the names, codes and keep-alives."""
        return [self._name(event) for event in self.answer.events()]

    def _name(self, event: StreamEvent | None) -> str:
        if event is None:
            return "keep-alive"
        return str(event.data.get("code", event.name))


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(answers, "KEEP_ALIVE_SECONDS", 0.1)


def test_comment_keeps_a_silent_answer_open() -> None:
    case = Case("Hello", 0.25, " again")
    assert case.read() == ["token", "keep-alive", "keep-alive", "token", "done"]
    assert (case.saved, case.slot.releases) == ([True], 1)


def test_answer_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_SECONDS", 0.2)
    case = Case("Hello", 60.0)
    started = time.monotonic()
    assert case.read()[-1] == "timed-out"
    assert time.monotonic() - started < 5
    assert (case.saved, case.slot.releases, case.generation.is_closed) == ([False], 1, True)


def test_expired_token_ends_a_silent_answer() -> None:
    assert Case("Hello", 60.0, expires_at=time.time() + 0.2).read()[-1] == "token-expired"


@pytest.mark.parametrize("reason", list(EndReason))
def test_each_reason_ends_the_answer_with_a_code(reason: EndReason) -> None:
    case = Case("Hello", 60.0)
    case.slot.end_reason = reason
    assert case.read() == [answers._END_CODES[reason]]
    assert case.saved == [False]


def test_reader_who_left_gets_no_more_events() -> None:
    case = Case("Hello", 60.0, is_gone=lambda: True)
    assert case.read() == ["token"]
    case.answer.close()
    case.answer.close()
    assert (case.saved, case.slot.releases, case.generation.is_closed) == ([False], 1, True)


def test_model_waits_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(*["word"] * 500)
    events = case.answer.events()
    next(events)
    gevent.sleep(0.05)
    assert not case.generation.is_closed
    assert len(list(events)) == 500


def test_failed_storing_is_an_error_and_frees_the_place() -> None:
    case = Case("Hello")
    case.answer._save = lambda _generation, _is_complete: 1 / 0  # type: ignore[assignment,return-value]
    assert case.read() == ["token", "internal"]
    assert case.slot.releases == 1
