"""A conversation of the buyer with the vendor's store, and a message that the guard refused."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from marketplace.chat.models import BlockedMessage, ChatMessage, Conversation
from marketplace.chat.participants import BUYER, VENDOR
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id

_MESSAGES = (
    (BUYER, "Is this still available, and can I pick it up at the hub?"),
    (VENDOR, "Yes, it is. I bring it to the hub the morning after you order."),
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
    session.flush()
    return len(_MESSAGES)
