"""Conversations of the buyer with the vendor's store and with the assistant, and a message that the guard refused."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from marketplace.assistant.models import AssistantMessage, AssistantThread
from marketplace.chat.models import BlockedMessage, ChatMessage, Conversation
from marketplace.chat.participants import BUYER, VENDOR
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id

_MESSAGES = (
    (BUYER, "Is this still available, and can I pick it up at the hub?"),
    (VENDOR, "Yes, it is. I bring it to the hub the morning after you order."),
)
_THREAD = (
    ("user", "Abeg, where I fit collect my package?"),
    ("assistant", "You can collect packages at the Main Gate hub. It is open on weekdays."),
)
_REFUSED = "Call me on 0803 555 0199, it is faster."


def load_chat(session: Session, *, now: datetime) -> int:
    """Add the conversation and the refused message of the demo.

    :return: number of new messages
    """
    if session.get(Conversation, demo_ids.CONVERSATION) is not None:
        return 0
    message_ids = [seeded_id(SeededKind.MESSAGE, number) for number in range(1, len(_MESSAGES) + 1)]
    session.add(
        Conversation(
            id=demo_ids.CONVERSATION,
            buyer_id=demo_ids.BUYER,
            seller_id=demo_ids.VENDOR_OWNER,
            vendor_id=demo_ids.STORE,
            message_count=len(_MESSAGES),
            last_message_id=message_ids[-1],
            buyer_read_number=1,
            seller_read_number=len(_MESSAGES),
            buyer_unread=1,
            created_at=now - timedelta(hours=2),
        )
    )
    session.flush()
    session.add_all(
        ChatMessage(
            id=message_id,
            conversation_id=demo_ids.CONVERSATION,
            number=number,
            sender=sender,
            body=body,
            product_id=demo_ids.PRODUCT if sender == BUYER else None,
            created_at=now - timedelta(hours=2) + timedelta(minutes=5 * number),
        )
        for number, (message_id, (sender, body)) in enumerate(zip(message_ids, _MESSAGES, strict=True), 1)
    )
    session.add(
        BlockedMessage(
            id=demo_ids.BLOCKED_MESSAGE,
            sender_id=demo_ids.BUYER,
            recipient_id=demo_ids.VENDOR_OWNER,
            vendor_id=demo_ids.STORE,
            body=_REFUSED,
            earlier_messages=[],
            kinds=["phone"],
            created_at=now - timedelta(hours=1),
        )
    )
    _load_thread(session, now=now)
    session.flush()
    return len(_MESSAGES)


def _load_thread(session: Session, *, now: datetime) -> None:
    """Add a thread with the assistant that the buyer flagged."""
    at = now - timedelta(minutes=40)
    session.add(
        AssistantThread(
            id=demo_ids.ASSISTANT_THREAD,
            user_id=demo_ids.BUYER,
            thread_title="Package pickup at hub",
            message_count=len(_THREAD),
            last_message_at=at,
            flagged_at=at,
            flag_reason="wrong",
            flag_details="The hub was closed.",
            created_at=at,
        )
    )
    session.flush()
    session.add_all(
        AssistantMessage(
            thread_id=demo_ids.ASSISTANT_THREAD, number=number, role=role, body=body, created_at=at
        )
        for number, (role, body) in enumerate(_THREAD, 1)
    )
