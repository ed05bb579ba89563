"""Background tasks of the administration of people."""

from datetime import datetime

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
    purpose="Delete student IDs that are no longer needed",
)
def delete_due_documents(services: Services, _sweeper: QueueSweeper, now: datetime) -> int:
    """Delete private documents whose time has passed.

    :return: the number of deleted documents
    """
    return documents.delete_due_documents(
        services.database, services.storage, bucket=services.settings.s3_private_bucket, now=now
    )
