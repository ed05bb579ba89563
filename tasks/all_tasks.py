"""All handlers and periodic tasks, registered by importing all modules of tasks."""

from collections.abc import Mapping

from tasks import (
    alerts,
    catalog,
    community,
    maintenance,
    notifications,
    payments,
    payouts,
    reconciliation,
    registry,
    stores,
    support,
)
from tasks.registry import OutboxHandler, PeriodicTask

# Importing a module registers its tasks. A new module of tasks is added here.
MODULES = (
    alerts,
    catalog,
    community,
    maintenance,
    notifications,
    payments,
    payouts,
    reconciliation,
    stores,
    support,
)
HANDLERS: Mapping[str, OutboxHandler] = registry.handlers
PERIODIC_TASKS: tuple[PeriodicTask, ...] = tuple(task for _, task in sorted(registry.periodic_tasks.items()))


class UnknownPeriodicTaskError(LookupError):
    """No periodic task has this name. The message lists the existing names."""


def get_periodic_task(name: str) -> PeriodicTask:
    """Find a periodic task by name.

    :raises UnknownPeriodicTaskError: no periodic task has this name
    """
    task = registry.periodic_tasks.get(name)
    if task is None:
        raise UnknownPeriodicTaskError(
            f"Unknown periodic task {name}; use one of {', '.join(task.name for task in PERIODIC_TASKS)}"
        )
    return task
