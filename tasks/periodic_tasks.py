"""The periodic tasks, in one table: what runs, on which queue, and when."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any

from marketplace.background.schedule import DeclaredTask
from marketplace.catalog.media import image_cleanup
from marketplace.catalog.moderation import automated_review
from marketplace.catalog.search import index_maintenance
from marketplace.catalog.statistics import counters
from marketplace.idempotency import operations as idempotency
from marketplace.infra import outbox
from marketplace.infra.batches import run_in_batches
from marketplace.kernel import queues
from marketplace.orders.queries import is_image_used_by_orders
from marketplace.payments.intents import stalled as intent_stalled
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.refunds.buyer_debt import offset_buyer_debts
from marketplace.payments.refunds.polling import poll_refunds
from marketplace.payouts.batches import staging
from marketplace.payouts.transfers import stalled
from marketplace.payouts.transfers.polling import poll_transfers
from marketplace.proposals import operations as proposals
from marketplace.reconciliation import ledger_check
from marketplace.services import Services
from marketplace.webhooks import retention as webhooks
from tasks.dispatcher import Dispatcher
from tasks.reconciliation import reconcile


@dataclass(frozen=True)
class PeriodicTask(DeclaredTask):
    """A periodic task: what it is for, whose worker runs it, and when (in UTC).

    Its run may be broken off at any point, and may come twice at once in rare cases: it commits in steps, and
    locks what it works on.
    """

    run: Callable[[Services, Dispatcher, datetime], Any]


@dataclass(frozen=True)
class StalledCounts:
    """How many payments it is unclear of whether they were made, and how many payouts were found to wait too long."""

    payments: int
    payouts_flagged: int


def _expire_checkouts(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return sweep_abandoned_checkouts(
        services.database, services.gateway, fee_bearer=services.settings.gateway_fee_bearer, now=now
    )


def _poll_refunds(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return poll_refunds(services.database, services.gateway, now=now)


def _poll_transfers(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return poll_transfers(services.database, services.transfers, now=now)


def _offset_buyer_debts(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return offset_buyer_debts(services.database, now=now)


def _sweep_inbox(_services: Services, relay: Dispatcher, now: datetime) -> Any:
    return relay.sweep_inbox(now)


def _sweep_outbox(_services: Services, relay: Dispatcher, now: datetime) -> Any:
    return relay.sweep_outbox(now)


def _check_invariants(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return len(ledger_check.check_ledger(services.database, now=now))


def _stage_payouts(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return services.database.in_transaction(staging.stage_on_schedule, now=now).payments


def _flag_stalled_intents(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    database = services.database
    return StalledCounts(
        payments=database.in_transaction(intent_stalled.flag_stalled_payments, now=now),
        payouts_flagged=database.in_transaction(stalled.flag_stalled_payouts, now=now),
    )


def _apply_proposals(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return proposals.apply_due_proposals(services.database, now=now)


def _reconcile_escrow(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return reconcile(services, now)


def _purge_idempotency_keys(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return run_in_batches(services.database, idempotency.purge_keys, now=now)


def _purge_outbox(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return run_in_batches(services.database, outbox.purge_events, now=now)


def _purge_inbox(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return run_in_batches(services.database, webhooks.purge_events, now=now)


def _hold_overdue_listings(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return services.database.in_transaction(automated_review.hold_overdue_screenings, now=now)


def _clean_up_images(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return image_cleanup.delete_unused_images(
        services.database,
        services.storage,
        bucket=services.settings.s3_public_bucket,
        shown_elsewhere=is_image_used_by_orders,
        now=now,
    )


def _flush_statistics(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return counters.flush_counts(services.database, services.cache, now=now)


def _purge_statistics(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return services.database.in_transaction(counters.purge_old_counts, now=now)


def _refresh_search_terms(services: Services, _relay: Dispatcher, now: datetime) -> Any:
    return services.database.in_transaction(index_maintenance.refresh_search_index, now=now)


PERIODIC_TASKS: tuple[PeriodicTask, ...] = (
    PeriodicTask(
        "expire-checkouts",
        "Ends orders that nobody paid in time, having asked the gateway first",
        queues.ESCROW_RECONCILIATION,
        "* * * * *",
        _expire_checkouts,
    ),
    PeriodicTask(
        "relay-inbox",
        "Hands on webhooks that a lost message or a killed worker left behind",
        queues.WEBHOOKS,
        "every 15s",
        _sweep_inbox,
    ),
    PeriodicTask(
        "relay-outbox",
        "Hands on work that a lost message or a killed worker left behind",
        queues.NOTIFICATIONS,
        "every 15s",
        _sweep_outbox,
    ),
    PeriodicTask(
        "hold-overdue-listings",
        "Has staff look at listings whose screening has not come for half an hour",
        # Not the queue of the screening: that one may be what is stuck.
        queues.NOTIFICATIONS,
        "*/5 * * * *",
        _hold_overdue_listings,
    ),
    PeriodicTask(
        "flag-stalled-intents",
        "Raises payments of which it is unclear for hours whether they were made, and payouts that wait for 48 hours",
        queues.ESCROW_RECONCILIATION,
        "*/5 * * * *",
        _flag_stalled_intents,
    ),
    PeriodicTask(
        "requery-refunds",
        "Asks the gateway about refunds that nothing was heard of for an hour",
        queues.ESCROW_RECONCILIATION,
        "*/15 * * * *",
        _poll_refunds,
    ),
    PeriodicTask(
        "requery-transfers",
        "Asks the gateway about payouts that nothing was heard of, and has dispatched batches go on",
        queues.ESCROW_RECONCILIATION,
        "* * * * *",
        _poll_transfers,
    ),
    PeriodicTask(
        "collect-debts",
        "Sets off what buyers owe against their wallets",
        queues.ESCROW_RECONCILIATION,
        "*/5 * * * *",
        _offset_buyer_debts,
    ),
    PeriodicTask(
        "stage-payouts",
        "Stages what vendors can be paid, and what people have asked for, into a batch that two officers approve",
        queues.ESCROW_RECONCILIATION,
        "0 6 * * *",
        _stage_payouts,
    ),
    PeriodicTask(
        "check-invariants",
        "Checks that the books are whole",
        queues.ESCROW_RECONCILIATION,
        "7 * * * *",
        _check_invariants,
    ),
    PeriodicTask(
        "apply-proposals",
        "Puts approved changes of the platform into force when they are due, and ends those that nobody approved",
        queues.ESCROW_RECONCILIATION,
        "* * * * *",
        _apply_proposals,
    ),
    PeriodicTask(
        "reconcile-escrow",
        "Compares what the gateway holds with the books, and books its settlements",
        queues.ESCROW_RECONCILIATION,
        "22 * * * *",
        _reconcile_escrow,
    ),
    PeriodicTask(
        "purge-idempotency-keys",
        "Deletes idempotency keys after their 24 hours",
        queues.ESCROW_RECONCILIATION,
        "37 * * * *",
        _purge_idempotency_keys,
    ),
    PeriodicTask(
        "purge-inbox",
        "Deletes webhooks 90 days after they were processed, and dead ones after a year",
        queues.WEBHOOKS,
        "17 * * * *",
        _purge_inbox,
    ),
    PeriodicTask(
        "purge-outbox",
        "Deletes what was handed on 30 days after it was done, or a year after it was given up",
        queues.NOTIFICATIONS,
        "27 * * * *",
        _purge_outbox,
    ),
    PeriodicTask(
        "sweep-images",
        "Clears away pictures that nothing has shown for 24 hours",
        queues.AI_MODERATION,
        "47 * * * *",
        _clean_up_images,
    ),
    PeriodicTask(
        "refresh-search-terms",
        "Counts the words of the catalog, and takes over how popular products are",
        queues.AI_MODERATION,
        "*/15 * * * *",
        _refresh_search_terms,
    ),
    PeriodicTask(
        "flush-statistics",
        "Adds up views, cart adds and shares, and reckons what trends",
        queues.NOTIFICATIONS,
        "* * * * *",
        _flush_statistics,
    ),
    PeriodicTask(
        "purge-statistics",
        "Deletes hourly counts after 90 days",
        queues.NOTIFICATIONS,
        "47 * * * *",
        _purge_statistics,
    ),
)


class UnknownPeriodicTaskError(LookupError):
    """There is no periodic task of that name; the message names those that there are."""


def get_periodic_task(name: str) -> PeriodicTask:
    """Find a periodic task.

    :raises UnknownPeriodicTaskError: there is none of that name
    """
    for task in PERIODIC_TASKS:
        if task.name == name:
            return task
    raise UnknownPeriodicTaskError(f"{name} is none of {', '.join(task.name for task in PERIODIC_TASKS)}")


def format_result(result: Any) -> str:
    """Say in a few words what a task did.

    :param result: what its run returned: nothing, a number, or a dataclass of counts
    """
    if is_dataclass(result) and not isinstance(result, type):
        return ", ".join(
            f"{item.name.replace('_', ' ')} {getattr(result, item.name)}" for item in fields(result)
        )
    return "done" if result is None else str(result)
