"""Registries of background work: outbox handlers by topic, and periodic tasks by name.

Functions register themselves with the decorators of this module. Importing ``tasks.all_tasks`` fills the registries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from sqlalchemy.orm import Session

from marketplace.background.schedule import DeclaredTask
from marketplace.infra.outbox import Handler, LastPhase
from marketplace.services import Services

PhasedFunction = Callable[[Services, dict[str, Any], datetime], LastPhase | None]


@dataclass(frozen=True)
class PhasedHandler:
    """An outbox handler that calls a provider in three phases: read, call the provider, apply.

    No transaction is open during the call. ``run`` reads in a separate transaction, which may also lease rows and
    commits before the call. An error of the provider causes a retry of the event. ``run`` returns the last phase as a
    function ``(session, *, now)``, or None if nothing is left to apply.

    The event's row is locked only in the last phase, in the transaction that marks the event as done. If a worker is
    killed during the call, the event is still due. Two workers with the same event call the provider twice and apply
    once. So ``run`` must be repeatable, and the last phase must check all read values again.
    """

    run: PhasedFunction

    def prepare(self, services: Services, payload: dict[str, Any]) -> Handler:
        """Run the first two phases, and return the third phase as a handler."""
        apply = self.run(services, payload, services.clock())

        def handle(session: Session, _payload: dict[str, Any], now: datetime) -> None:
            if apply is not None:
                apply(session, now=now)

        return handle


OutboxHandler = Handler | PhasedHandler


class QueueSweeper(Protocol):
    """The methods of the dispatcher that periodic tasks use."""

    def sweep_inbox(self, now: datetime) -> Any:
        """Enqueue the inbox rows that are due."""

    def sweep_outbox(self, now: datetime) -> Any:
        """Enqueue the outbox rows that are due."""


PeriodicFunction = Callable[[Services, QueueSweeper, datetime], Any]
_Function = TypeVar("_Function", bound=Handler)
_Phased = TypeVar("_Phased", bound=PhasedFunction)
_Periodic = TypeVar("_Periodic", bound=PeriodicFunction)


@dataclass(frozen=True)
class PeriodicTask(DeclaredTask):
    """A periodic task: purpose, queue, schedule in UTC, and function.

    A run may be interrupted at any point, and two runs may overlap in rare cases. So the function must commit in steps
    and lock the processed rows.
    """

    run: PeriodicFunction


# Use the names in tasks.all_tasks, which imports all registering modules.
handlers: dict[str, OutboxHandler] = {}
periodic_tasks: dict[str, PeriodicTask] = {}


class AlreadyRegisteredError(Exception):
    """The topic already has a handler, or the name of the periodic task is taken."""


def handler(topic: str) -> Callable[[_Function], _Function]:
    """Register a function ``(session, payload, now)`` as the handler of an outbox topic.

    :raises AlreadyRegisteredError: the topic has a handler
    """

    def register(function: _Function) -> _Function:
        _register_handler(topic, function)
        return function

    return register


def phased_handler(topic: str) -> Callable[[_Phased], _Phased]:
    """Register a function ``(services, payload, now)`` as the phased handler of an outbox topic.

    :raises AlreadyRegisteredError: the topic has a handler
    """

    def register(function: _Phased) -> _Phased:
        _register_handler(topic, PhasedHandler(function))
        return function

    return register


def periodic(name: str, *, queue: str, schedule: str, purpose: str) -> Callable[[_Periodic], _Periodic]:
    """Register a function ``(services, sweeper, now)`` as a periodic task.

    :param name: identifies the task for operators and in the database
    :param queue: the queue whose workers run the task
    :param schedule: a crontab expression or an interval such as ``every 15s``, in UTC
    :param purpose: an imperative phrase for operators, without a full stop
    :raises AlreadyRegisteredError: the name is taken
    """

    def register(function: _Periodic) -> _Periodic:
        if name in periodic_tasks:
            raise AlreadyRegisteredError(f"periodic task {name}")
        periodic_tasks[name] = PeriodicTask(name, purpose, queue, schedule, function)
        return function

    return register


def _register_handler(topic: str, registered: OutboxHandler) -> None:
    if topic in handlers:
        raise AlreadyRegisteredError(f"handler of {topic}")
    handlers[topic] = registered
