"""Tasks of proposals: approved changes of the platform come into force."""

from datetime import datetime
from typing import Any

from marketplace.kernel import queues
from marketplace.proposals import operations as proposals
from marketplace.services import Services
from tasks.registry import QueueSweeper, periodic


@periodic(
    "apply-proposals",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="* * * * *",
    purpose="Puts approved changes of the platform into force when they are due, and ends those that nobody approved",
)
def apply_proposals(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Apply the approved proposals that are due, and expire the others."""
    return proposals.apply_due_proposals(services.database, now=now)
