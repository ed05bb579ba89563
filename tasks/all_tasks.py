"""All handlers and periodic tasks: this module imports every module that registers some."""

from collections.abc import Mapping

from tasks import (
    alerts,
    catalog,
    maintenance,
    payments,
    payouts,
    reconciliation,
    registry,
)
from tasks.registry import OutboxHandler, PeriodicTask

# Importing a module registers its tasks. A new module of tasks is added here.
MODULES = (alerts, catalog, maintenance, payments, payouts, reconciliation)
HANDLERS: Mapping[str, OutboxHandler] = registry.handlers
PERIODIC_TASKS: tuple[PeriodicTask, ...] = tuple(task for _, task in sorted(registry.periodic_tasks.items()))


class UnknownPeriodicTaskError(LookupError):
    """There is no periodic task of that name; the message names those that there are."""


def get_periodic_task(name: str) -> PeriodicTask:
    """Find a periodic task by its name.

    :raises UnknownPeriodicTaskError: there is none of that name
    """
    task = registry.periodic_tasks.get(name)
    if task is None:
        raise UnknownPeriodicTaskError(f"{name} is none of {', '.join(task.name for task in PERIODIC_TASKS)}")
    return task
