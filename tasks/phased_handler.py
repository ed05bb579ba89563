"""Work of the outbox that asks a provider: read, ask, settle, with no transaction open while it waits.

What is read may be claimed too: that has committed before the provider is asked.

The event's row is taken only to settle, in the transaction that marks it done. Until then nothing is held, so a
worker that is killed while it waits leaves an event that is due, and two workers at the same event ask twice
and settle once. So ``ask`` must be fit to come more than once, and ``settle`` must look again at what was read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.services import Services

_Input = TypeVar("_Input")
_Response = TypeVar("_Response")


@dataclass(frozen=True)
class PhasedHandler(Generic[_Input, _Response]):
    """A handler in phases.

    :param read: takes the payload, in a transaction of its own, and gives what the provider is to be asked about
    :param ask: calls the provider; what it raises has the event tried again
    :param settle: does the work, given what was read and what was answered, in a transaction
    """

    read: Callable[[Session, dict[str, Any]], _Input]
    ask: Callable[[Services, _Input], _Response]
    settle: Callable[[Session, _Input, _Response, datetime], None]

    def asked(self, services: Services, payload: dict[str, Any]) -> Handler:
        """Go through the first two phases, and give the third as a handler.

        :param services: where the database and the providers are
        :param payload: the event's
        """
        found = services.database.in_transaction(self.read, payload)
        answer = self.ask(services, found)

        def settle(session: Session, _payload: dict[str, Any], now: datetime) -> None:
            self.settle(session, found, answer, now)

        return settle
