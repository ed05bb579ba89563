"""Tasks of the platform: sweeps of the inbox and the outbox, purges of old rows, proposals and campuses."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit import anchors, archives, partitions
from marketplace.catalog import cache_tags
from marketplace.health import budgets, monitors, signal_counts
from marketplace.idempotency import operations as idempotency
from marketplace.infra import outbox
from marketplace.infra.batches import run_in_batches
from marketplace.infra.cache import drop_cached
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.models import metadata
from marketplace.platform.campuses import campus_list
from marketplace.privacy import deletion, erasure, exports as privacy_exports, requests, retention
from marketplace.privacy.rules import AUDIT_RECORDS
from marketplace.proposals import operations as proposals
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from tasks.registry import QueueSweeper, handler, periodic, phased_handler


@periodic(
    "relay-inbox",
    queue=queues.WEBHOOKS,
    schedule="every 15s",
    purpose="Enqueue due webhooks that a lost message or a crashed worker left behind",
)
def sweep_inbox(_services: Services, sweeper: QueueSweeper, now: datetime) -> Any:
    """Enqueue the inbox rows that are due."""
    return sweeper.sweep_inbox(now)


@periodic(
    "relay-outbox",
    queue=queues.NOTIFICATIONS,
    schedule="every 15s",
    purpose="Enqueue due background work that a lost message or a crashed worker left behind",
)
def sweep_outbox(_services: Services, sweeper: QueueSweeper, now: datetime) -> Any:
    """Enqueue the outbox rows that are due."""
    return sweeper.sweep_outbox(now)


@periodic(
    "purge-idempotency-keys",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="37 * * * *",
    purpose="Delete idempotency keys after 24 hours",
)
def purge_idempotency_keys(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete expired idempotency keys."""
    return run_in_batches(services.database, idempotency.purge_keys, now=now)


@periodic(
    "sweep-retention",
    queue=queues.NOTIFICATIONS,
    schedule="47 * * * *",
    purpose="Delete personal rows whose retention has ended, by the register of personal data",
)
def sweep_retention(services: Services, _sweeper: QueueSweeper, now: datetime) -> dict[str, int]:
    """Delete expired rows."""
    return retention.delete_expired_rows(services.database, tables=metadata.tables, now=now)


@periodic(
    "purge-inbox",
    queue=queues.WEBHOOKS,
    schedule="17 * * * *",
    purpose="Delete webhooks 90 days after processing, and dead webhooks after a year",
)
def purge_inbox(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete old webhook events."""
    return run_in_batches(services.database, webhooks.purge_events, now=now)


@periodic(
    "purge-outbox",
    queue=queues.NOTIFICATIONS,
    schedule="27 * * * *",
    purpose="Delete background work 30 days after completion, and failed work after a year",
)
def purge_outbox(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete old outbox events."""
    return run_in_batches(services.database, outbox.purge_events, now=now)


@periodic(
    "apply-proposals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="* * * * *",
    purpose="Apply approved proposals when due, and expire proposals without approval",
)
def apply_proposals(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Apply approved proposals that are due, and expire proposals without approval."""
    return proposals.apply_due_proposals(services.database, now=now)


@handler(campus_list.RENAMED_TOPIC)
def handle_campus_renamed(session: Session, _payload: dict[str, Any], _now: datetime) -> None:
    """Drop cached product pages, which show the name of the campus."""
    drop_cached(session, cache_tags.PRODUCTS)


@phased_handler(privacy_exports.TOPIC)
def prepare_privacy_export(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase | None:
    """Write and store the archive of a person's data."""
    return privacy_exports.prepare_export(
        services.database,
        services.storage,
        tables=metadata.tables,
        public_bucket=services.settings.s3_public_bucket,
        private_bucket=services.settings.s3_private_bucket,
        export_id=UUID(payload["exportId"]),
        now=now,
    )


@periodic(
    "anchor-audit-trail",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="5 * * * *",
    purpose="Write the anchor of the day, archive finished months of the audit trail, and drop months after 7 years",
)
def anchor_audit_trail(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Write the anchor of the day, archive finished months, and create and drop partitions."""
    database, storage, bucket = services.database, services.storage, services.settings.s3_private_bucket
    created = partitions.create_partitions(database, now=now)
    anchors.write_anchor(database, storage, bucket=bucket, now=now)
    archived = archives.archive_months(database, storage, bucket=bucket, now=now)
    dropped = partitions.drop_expired_partitions(
        database, storage, bucket=bucket, retention=timedelta(days=AUDIT_RECORDS.days or 0), now=now
    )
    return created + archived + dropped


@periodic(
    "store-signals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="every 15s",
    purpose="Store the counts of all processes for the service objectives",
)
def store_signals(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Move the counts from the cache to the tables."""
    return signal_counts.store_counts(services.database, services.cache, now=now)


@periodic(
    "check-signals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="every 30s",
    purpose="Raise and resolve the alerts about requests, connections, webhooks, queues and objectives",
)
def check_signals(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Check the monitored alerts, except the stall of the own queue."""
    # Without the cache no counts arrive, and missing counts must not resolve an alert.
    if signal_counts.are_counts_arriving(services.cache):
        services.database.in_transaction(monitors.check_signals, now=now)
        services.database.in_transaction(budgets.check_burn_rates, now=now)
    others = tuple(name for name in queues.NAMES if name != queues.ESCROW_RECONCILIATION)
    return monitors.check_queues(
        services.database, services.cache, services.scale_hook, queues=others, now=now
    )


@periodic(
    "check-reconciliation-queue",
    queue=queues.WEBHOOKS,
    schedule="every 30s",
    purpose="Raise and resolve the alert about a stall of the queue that checks the other queues",
)
def check_reconciliation_queue(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Check the queue whose worker checks the others."""
    return monitors.check_queues(
        services.database,
        services.cache,
        services.scale_hook,
        queues=(queues.ESCROW_RECONCILIATION,),
        now=now,
    )


@periodic(
    "purge-signals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="23 * * * *",
    purpose="Delete counts that no service objective needs any more",
)
def purge_signals(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete old counts."""
    return signal_counts.purge_counts(services.database, now=now)


@phased_handler(erasure.TOPIC)
def erase_person(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase | None:
    """Erase rows and files of a person for some seconds."""
    return erasure.run_erasure(
        services.database,
        stored_files(services),
        services.identity_accounts,
        tables=metadata.tables,
        execution_id=UUID(payload["executionId"]),
        now=now,
    )


def stored_files(services: Services) -> erasure.StoredFiles:
    """Return the storage with its buckets."""
    settings = services.settings
    return erasure.StoredFiles(services.storage, settings.s3_public_bucket, settings.s3_private_bucket)


@periodic(
    "remind-deletions",
    queue=queues.NOTIFICATIONS,
    schedule="7 * * * *",
    purpose="Remind people of pending deletions, and raise alerts about requests that are due",
)
def remind_deletions(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Send due reminders, and raise or resolve the alerts about open requests."""
    reminded = deletion.remind_people(services.database, now=now)
    services.database.in_transaction(requests.update_alerts, now=now)
    return reminded


@periodic(
    "expire-exports",
    queue=queues.NOTIFICATIONS,
    schedule="11 * * * *",
    purpose="Expire exports of personal data after 7 days, and fail exports that were not ready in a day",
)
def expire_privacy_exports(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Expire exports whose time has passed."""
    return services.database.in_transaction(privacy_exports.expire_exports, now=now)
