"""Tasks of the platform: sweeps of the inbox and the outbox, purges of old rows, and approved proposals."""

from datetime import datetime
from typing import Any

from marketplace.idempotency import operations as idempotency
from marketplace.infra import outbox
from marketplace.infra.batches import run_in_batches
from marketplace.kernel import queues
from marketplace.proposals import operations as proposals
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks.registry import QueueSweeper, periodic


@periodic(
    "relay-inbox",
    queue=queues.WEBHOOKS,
    schedule="every 15s",
    purpose="Hands on webhooks that a lost message or a killed worker left behind",
)
def sweep_inbox(_services: Services, sweeper: QueueSweeper, now: datetime) -> Any:
    """Enqueue the inbox rows that are due."""
    return sweeper.sweep_inbox(now)


@periodic(
    "relay-outbox",
    queue=queues.NOTIFICATIONS,
    schedule="every 15s",
    purpose="Hands on work that a lost message or a killed worker left behind",
)
def sweep_outbox(_services: Services, sweeper: QueueSweeper, now: datetime) -> Any:
    """Enqueue the outbox rows that are due."""
    return sweeper.sweep_outbox(now)


@periodic(
    "purge-idempotency-keys",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="37 * * * *",
    purpose="Deletes idempotency keys after their 24 hours",
)
def purge_idempotency_keys(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete expired idempotency keys."""
    return run_in_batches(services.database, idempotency.purge_keys, now=now)


@periodic(
    "purge-inbox",
    queue=queues.WEBHOOKS,
    schedule="17 * * * *",
    purpose="Deletes webhooks 90 days after they were processed, and dead ones after a year",
)
def purge_inbox(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete old webhook events."""
    return run_in_batches(services.database, webhooks.purge_events, now=now)


@periodic(
    "purge-outbox",
    queue=queues.NOTIFICATIONS,
    schedule="27 * * * *",
    purpose="Deletes what was handed on 30 days after it was done, or a year after it was given up",
)
def purge_outbox(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete old outbox events."""
    return run_in_batches(services.database, outbox.purge_events, now=now)


@periodic(
    "apply-proposals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="* * * * *",
    purpose="Puts approved changes of the platform into force when they are due, and ends those that nobody approved",
)
def apply_proposals(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Apply the approved proposals that are due, and expire the others."""
    return proposals.apply_due_proposals(services.database, now=now)
