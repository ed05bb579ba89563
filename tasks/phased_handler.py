"""Outbox work that calls a provider in phases: read, call the provider, apply. No transaction is open meanwhile.

``read`` may also lease rows: the lease has committed before the provider is called.

The event's row is locked only to apply, in the transaction that marks the event done. Until then nothing is locked.
A worker that is killed during the call leaves an event that is due. Two workers at the same event call the provider
twice and apply once. So ``call_provider`` must be fit to run more than once, and ``apply`` must check again what was
read.
"""

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.services import Services

_Input = TypeVar("_Input")
_Response = TypeVar("_Response")


class PhasedHandler(ABC, Generic[_Input, _Response]):
    """A handler in phases; ``@phased_handler(TOPIC)`` on a subclass registers it."""

    @abstractmethod
    def read(self, session: Session, payload: dict[str, Any], now: datetime) -> _Input:
        """Read the provider call's input, in a transaction of its own."""

    @abstractmethod
    def call_provider(self, services: Services, request: _Input) -> _Response:
        """Call the provider, without a transaction. An error has the event tried again."""

    @abstractmethod
    def apply(self, session: Session, request: _Input, response: _Response, now: datetime) -> None:
        """Apply the response, in the transaction that marks the event done."""

    def prepare(self, services: Services, payload: dict[str, Any]) -> Handler:
        """Run the first two phases, and return the third as a handler.

        :param payload: the event's
        """
        request = services.database.in_transaction(self.read, payload, services.clock())
        response = self.call_provider(services, request)

        def apply(session: Session, _payload: dict[str, Any], now: datetime) -> None:
            self.apply(session, request, response, now)

        return apply
