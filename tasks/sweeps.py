"""The periodic tasks, in one table: what runs, on which queue, and when."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from huey import crontab

from marketplace.catalog import image_sweep, review, search_index, statistics
from marketplace.idempotency import operations as idempotency
from marketplace.kernel import queues
from marketplace.orders.queries import shows_picture
from marketplace.payments import alarms, books
from marketplace.payments.expiry import sweep_abandoned_checkouts
from marketplace.payments.requery import requery_refunds
from marketplace.services import Services
from tasks.relay import Relay

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PeriodicTask:
    """A periodic task; ``minutes`` and ``hours`` are those of a crontab."""

    name: str
    purpose: str
    queue: str
    run: Callable[[Services, Relay, datetime], Any]
    minutes: str = "*"
    hours: str = "*"


def _expire_checkouts(services: Services, _relay: Relay, now: datetime) -> Any:
    return sweep_abandoned_checkouts(
        services.database, services.gateway, fee_bearer=services.settings.gateway_fee_bearer, now=now
    )


def _requery_refunds(services: Services, _relay: Relay, now: datetime) -> Any:
    return requery_refunds(services.database, services.gateway, now=now)


def _relay_inbox(_services: Services, relay: Relay, now: datetime) -> Any:
    return relay.sweep_inbox(now)


def _relay_outbox(_services: Services, relay: Relay, now: datetime) -> Any:
    return relay.sweep_outbox(now)


def _check_invariants(services: Services, _relay: Relay, now: datetime) -> Any:
    return len(books.check(services.database, now=now))


def _flag_stalled_intents(services: Services, _relay: Relay, now: datetime) -> Any:
    return services.database.in_transaction(alarms.flag_stalled, now=now)


def _purge_idempotency_keys(services: Services, _relay: Relay, now: datetime) -> Any:
    return services.database.in_transaction(idempotency.purge, now=now)


def _hold_overdue_listings(services: Services, _relay: Relay, now: datetime) -> Any:
    return services.database.in_transaction(review.hold_overdue, now=now)


def _sweep_images(services: Services, _relay: Relay, now: datetime) -> Any:
    return image_sweep.sweep(
        services.database,
        services.storage,
        bucket=services.settings.s3_public_bucket,
        shown_elsewhere=shows_picture,
        now=now,
    )


def _flush_statistics(services: Services, _relay: Relay, now: datetime) -> Any:
    return statistics.flush(services.database, services.cache, now=now)


def _purge_statistics(services: Services, _relay: Relay, now: datetime) -> Any:
    return services.database.in_transaction(statistics.purge, now=now)


def _refresh_search_terms(services: Services, _relay: Relay, now: datetime) -> Any:
    return services.database.in_transaction(search_index.refresh, now=now)


PERIODIC_TASKS: tuple[PeriodicTask, ...] = (
    PeriodicTask(
        "expire-checkouts",
        "Ends orders that nobody paid in time, having asked the gateway first",
        queues.ESCROW_RECONCILIATION,
        _expire_checkouts,
    ),
    PeriodicTask(
        "relay-inbox", "Processes webhooks that a lost message left behind", queues.WEBHOOKS, _relay_inbox
    ),
    PeriodicTask(
        "relay-outbox",
        "Hands on work that a lost message left behind",
        queues.NOTIFICATIONS,
        _relay_outbox,
    ),
    PeriodicTask(
        "hold-overdue-listings",
        "Has staff look at listings whose screening has not come for half an hour",
        # Not the queue of the screening: that one may be what is stuck.
        queues.NOTIFICATIONS,
        _hold_overdue_listings,
        minutes="*/5",
    ),
    PeriodicTask(
        "flag-stalled-intents",
        "Raises an alert for payments of which it is unclear for hours whether they were made",
        queues.ESCROW_RECONCILIATION,
        _flag_stalled_intents,
        minutes="*/5",
    ),
    PeriodicTask(
        "requery-refunds",
        "Asks the gateway about refunds that nothing was heard of for an hour",
        queues.ESCROW_RECONCILIATION,
        _requery_refunds,
        minutes="*/15",
    ),
    PeriodicTask(
        "check-invariants",
        "Checks that the books are whole",
        queues.ESCROW_RECONCILIATION,
        _check_invariants,
        minutes="7",
    ),
    PeriodicTask(
        "purge-idempotency-keys",
        "Deletes idempotency keys after their 24 hours",
        queues.ESCROW_RECONCILIATION,
        _purge_idempotency_keys,
        minutes="37",
    ),
    PeriodicTask(
        "sweep-images",
        "Clears away pictures that nothing has shown for 24 hours",
        queues.AI_MODERATION,
        _sweep_images,
        minutes="47",
    ),
    PeriodicTask(
        "refresh-search-terms",
        "Counts the words of the catalog, and takes over how popular products are",
        queues.AI_MODERATION,
        _refresh_search_terms,
        minutes="*/15",
    ),
    PeriodicTask(
        "flush-statistics",
        "Adds up views, cart adds and shares, and reckons what trends",
        queues.NOTIFICATIONS,
        _flush_statistics,
    ),
    PeriodicTask(
        "purge-statistics",
        "Deletes hourly counts after 90 days",
        queues.NOTIFICATIONS,
        _purge_statistics,
        minutes="47",
    ),
)


class UnknownPeriodicTaskError(LookupError):
    """There is no periodic task of that name; the message names those that there are."""


def run_now(name: str, services: Services, relay: Relay, *, now: datetime) -> Any:
    """This function will run a periodic task once, as of a time.

    :param name: of PERIODIC_TASKS
    :param now: the time that it takes for now
    :return: what it did
    :raises UnknownPeriodicTaskError: there is none of that name
    """
    for task in PERIODIC_TASKS:
        if task.name == name:
            result = task.run(services, relay, now)
            _log.info("periodic task ran", task=name, result=str(result))
            return result
    raise UnknownPeriodicTaskError(f"{name} is none of {', '.join(task.name for task in PERIODIC_TASKS)}")


def schedule(queue: str, services: Services, relay: Relay) -> None:
    """This function will have a queue's worker run the periodic tasks of that queue."""
    for task in PERIODIC_TASKS:
        if task.queue == queue:
            when = crontab(minute=task.minutes, hour=task.hours, strict=True)
            relay.queues[queue].periodic_task(when, name=task.name.replace("-", "_"))(
                _due(task, services, relay)
            )


def _due(task: PeriodicTask, services: Services, relay: Relay) -> Callable[[], None]:
    def run() -> None:
        run_now(task.name, services, relay, now=services.clock())

    return run
