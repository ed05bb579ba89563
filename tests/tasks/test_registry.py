"""Decorators that register handlers and periodic tasks."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from marketplace.kernel import queues
from marketplace.services import Services
from tasks import all_tasks, dispatcher, registry
from tasks.registry import (
    AlreadyRegisteredError,
    PhasedHandler,
    QueueSweeper,
    handler,
    periodic,
    phased_handler,
)


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "handlers", dict(registry.handlers))
    monkeypatch.setattr(registry, "periodic_tasks", dict(registry.periodic_tasks))


def _handle(_session: Session, _payload: dict[str, Any], _now: datetime) -> None:
    """Do nothing."""


def _run(_services: Services, _sweeper: QueueSweeper, _now: datetime) -> None:
    """Do nothing."""


def _run_phases(_services: Services, _payload: dict[str, Any], _now: datetime) -> None:
    """Do nothing in any phase."""


def test_decorators_register_and_return_decorated_functions() -> None:
    assert handler("test.plain")(_handle) is _handle
    assert phased_handler("test.phased")(_run_phases) is _run_phases
    declare = periodic("test-task", queue=queues.WEBHOOKS, schedule="every 1m", purpose="Does a test")
    assert declare(_run) is _run

    assert registry.handlers["test.plain"] is _handle
    assert registry.handlers["test.phased"] == PhasedHandler(_run_phases)
    task = registry.periodic_tasks["test-task"]
    assert (task.name, task.queue, task.schedule_text, task.purpose, task.run) == (
        "test-task",
        queues.WEBHOOKS,
        "every 1m",
        "Does a test",
        _run,
    )


def test_second_handler_of_a_topic_is_refused() -> None:
    handler("test.plain")(_handle)

    with pytest.raises(AlreadyRegisteredError, match=r"handler of test\.plain"):
        handler("test.plain")(_handle)
    with pytest.raises(AlreadyRegisteredError, match=r"handler of test\.plain"):
        phased_handler("test.plain")(_run_phases)


def test_second_periodic_task_of_a_name_is_refused() -> None:
    declare = periodic("relay-inbox", queue=queues.WEBHOOKS, schedule="every 1m", purpose="Does a test")

    with pytest.raises(AlreadyRegisteredError, match="periodic task relay-inbox"):
        declare(_run)


def test_every_module_that_registers_tasks_is_imported() -> None:
    registering = {
        path.stem
        for path in Path(registry.__file__).parent.glob("*.py")
        if "\n@handler(" in path.read_text() or "\n@p" in path.read_text()
    }

    assert registering == {module.__name__.removeprefix("tasks.") for module in all_tasks.MODULES}


def test_dispatcher_has_a_handler_for_each_stored_topic() -> None:
    assert sorted(dispatcher.HANDLERS) == [
        "alert.send",
        "assistant.thread-summary-due",
        "campus.renamed",
        "chat.repeated-blocks",
        "favorites.product-changed",
        "order.charged-back",
        "order.disputed-refunded",
        "order.refunded-in-full",
        "payout.ask",
        "payout.send",
        "privacy.erasure-started",
        "privacy.export-requested",
        "product.screen",
        "promotion.turn",
        "reconciliation.apply-charge",
        "reconciliation.run",
        "referral.order-delivered",
        "refund.ask",
        "refund.send",
        "store.rating-changed",
        "support.answer",
        "support.media-received",
    ]
