"""Wake-ups: messages to a queue that a row waits for it, sent once the row is committed.

The rows make work durable. The dispatcher's sweeps enqueue the rows whose wake-up was lost.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

OUTBOX = "outbox"
INBOX = "inbox"

WakeupSender = Callable[[str, str, UUID, datetime | None], None]
_wakeup_senders: list[WakeupSender] = []


def set_wakeup_sender(sender: WakeupSender) -> None:
    """Set who tells the queues.

    :param sender: takes the queue's name, ``outbox`` or ``inbox``, the row's id and when the row is due, none for
        now; it must not raise
    """
    _wakeup_senders[:] = [sender]


def send_wakeup(queue: str, table: str, row_id: UUID, due_at: datetime | None = None) -> None:
    """Tell a queue that a committed row waits for it, if anybody was set to tell it.

    :param due_at: the queue is to take the row up at this time, if it is yet to come
    """
    for send in _wakeup_senders:
        send(queue, table, row_id, due_at)
