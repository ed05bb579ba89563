"""Background tasks of the administration of people."""

from datetime import datetime

from marketplace.kernel import queues
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
