"""The SMS gateway's state: sent messages, balance and planned outcomes."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from flask import current_app

Outcome = Literal["sent", "error", "refused", "limited", "timeout", "lost"]
OUTCOMES: tuple[Outcome, ...] = ("sent", "error", "refused", "limited", "timeout", "lost")
MAXIMUM_OUTCOMES = 1_000
OPENING_BALANCE_KOBO = 100_000_000
PRICE_KOBO = 400
_SINGLE_SEGMENT_CHARACTERS = 160
_SEGMENT_CHARACTERS = 153
_LATEST = 500


@dataclass
class SmsGateway:
    """The running SMS gateway. Messages, balance and planned outcomes live in memory.

    :param key: API key of the only account; empty accepts any key
    :param hang_seconds: duration of a call with the outcome ``timeout`` or ``lost``
    :param stopping: set when the server stops, which ends hanging calls
    """

    key: str
    hang_seconds: float
    stopping: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: deque[Outcome] = field(default_factory=deque)
    _messages: deque[Mapping[str, str]] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _balance_kobo: int = OPENING_BALANCE_KOBO
    _calls: int = 0

    @property
    def balance_kobo(self) -> int:
        """The account's balance in kobo."""
        with self._lock:
            return self._balance_kobo

    @property
    def calls(self) -> int:
        """The number of calls to send a message."""
        with self._lock:
            return self._calls

    def plan(self, outcome: Outcome, count: int) -> bool:
        """Plan an outcome for the next calls, and return whether the plan had room."""
        with self._lock:
            if len(self._next) + count > MAXIMUM_OUTCOMES:
                return False
            self._next.extend([outcome] * count)
            return True

    def reset(self, balance_kobo: int = OPENING_BALANCE_KOBO) -> None:
        """Drop unused planned outcomes and sent messages, and set the balance in kobo."""
        with self._lock:
            self._next.clear()
            self._messages.clear()
            self._calls = 0
            self._balance_kobo = balance_kobo

    def take_outcome(self) -> Outcome:
        """Count a call and take the next planned outcome, ``sent`` by default."""
        with self._lock:
            self._calls += 1
            return self._next.popleft() if self._next else "sent"

    def send(self, *, to: str, sender: str, text: str, channel: str, at: str) -> str | None:
        """Charge and store a message, and return the message's id, or none if the balance is too low."""
        segments = 1 if len(text) <= _SINGLE_SEGMENT_CHARACTERS else -(-len(text) // _SEGMENT_CHARACTERS)
        with self._lock:
            if self._balance_kobo < segments * PRICE_KOBO:
                return None
            self._balance_kobo -= segments * PRICE_KOBO
            message_id = str(uuid4().int)[:22]
            self._messages.append(
                {"id": message_id, "to": to, "from": sender, "text": text, "channel": channel, "at": at}
            )
            return message_id

    def list_messages(self, to: str | None = None) -> list[Mapping[str, str]]:
        """List the latest messages, oldest first.

        :param to: only messages to this number, in digits
        """
        with self._lock:
            return [message for message in self._messages if to in (None, message["to"])]


def current_gateway() -> SmsGateway:
    """Return the SMS gateway of the current request."""
    gateway = current_app.extensions["sandbox_sms"]
    if not isinstance(gateway, SmsGateway):
        raise TypeError("the application has no SMS gateway")
    return gateway
