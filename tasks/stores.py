"""Background tasks of accounts and stores: decisions that end, private files, and figures."""

from datetime import datetime

from marketplace.analytics import roll_up
from marketplace.kernel import queues
from marketplace.media import documents
from marketplace.people import account_status
from marketplace.services import Services
from tasks.registry import QueueSweeper, periodic


@periodic(
    "end-account-decisions",
    queue=queues.NOTIFICATIONS,
    schedule="* * * * *",
    purpose="End restrictions and suspensions whose time has passed, and reopen the stores",
)
def end_account_decisions(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """End the decisions that are due.

    :return: the number of ended decisions
    """
    return account_status.end_due_decisions(services.database, now=now)


@periodic(
    "sweep-documents",
    queue=queues.AI_MODERATION,
    schedule="37 * * * *",
    purpose="Delete private files that nobody uses, and student IDs that are no longer needed",
)
def delete_due_documents(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete private documents whose time has passed.

    :return: the number of deleted documents
    """
    return documents.delete_due_documents(
        services.database, services.storage, bucket=services.settings.s3_private_bucket, now=now
    )


@periodic(
    "roll-up-analytics",
    queue=queues.NOTIFICATIONS,
    schedule="*/5 * * * *",
    purpose="Recompute the figures of stores for days with changed orders, and the traffic of two days",
)
def roll_up_analytics(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Roll up the changes.

    :return: the number of recomputed days of stores
    """
    return roll_up.roll_up_changes(services.database, now=now)
