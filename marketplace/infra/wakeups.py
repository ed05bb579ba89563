"""Wake-ups: messages to a queue about a committed row that is ready for processing.

Work is durable because the rows are. The dispatcher's sweeps enqueue rows whose wake-up was lost.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

OUTBOX = "outbox"
INBOX = "inbox"

WakeupSender = Callable[[str, str, UUID, datetime | None], None]
_wakeup_senders: list[WakeupSender] = []


def set_wakeup_sender(sender: WakeupSender) -> None:
    """Set the function that sends wake-ups to the queues.

    :param sender: receives the queue's name, ``outbox`` or ``inbox``, the row's id and the due time (none means
        now); must not raise
    """
    _wakeup_senders[:] = [sender]


def send_wakeup(queue: str, table: str, row_id: UUID, due_at: datetime | None = None) -> None:
    """Send a wake-up for a committed row, if this process has a sender.

    :param due_at: the earliest time for the queue to process the row; none or a past time means now
    """
    for send in _wakeup_senders:
        send(queue, table, row_id, due_at)
