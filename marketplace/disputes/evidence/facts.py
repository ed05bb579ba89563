"""Facts of the service about a disputed order: trail, PIN deliveries, messages, and the listing as it was bought."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.disputes.models import Dispute
from marketplace.infra.sql.statements import Statement
from marketplace.orders.trail import TrailEntry, list_trail

MAX_MESSAGES = 200


@dataclass(frozen=True)
class PinDelivery:
    """A message with the delivery PIN to the buyer: channel and the last status, without address and text."""

    channel: str
    status: str
    created_at: datetime
    status_at: datetime | None


@dataclass(frozen=True)
class ChatExtract:
    """A chat message of the parties about the order."""

    sender: str
    body: str
    created_at: datetime


@dataclass(frozen=True)
class BoughtListing:
    """A listing at the time of placing. Amounts are kobo.

    :ivar revision: revision of the listing then; none for orders from before revisions were kept
    :ivar current_revision: a later revision shows that the vendor has changed the listing
    :ivar image_keys: object keys of the images then, in the public bucket
    """

    product_id: UUID
    title: str
    unit_price_minor: int
    quantity: int
    revision: int | None
    current_revision: int
    image_keys: list[str]


@dataclass(frozen=True)
class DisputeFacts:
    """Facts that the service adds to a dispute."""

    trail: Sequence[TrailEntry]
    pin_deliveries: Sequence[PinDelivery]
    messages: Sequence[ChatExtract]
    listings: Sequence[BoughtListing]

    @property
    def wrong_pins(self) -> int:
        """The number of wrong PINs that the vendor submitted."""
        return sum(event.trigger == "wrong-pin" for event in self.trail)


_SELECT_PIN_DELIVERIES = Statement(
    text(
        """
        SELECT d.channel, d.status, d.created_at, d.status_at
        FROM notifications n JOIN notification_delivery_logs d ON d.notification_id = n.id
        WHERE n.user_id = :buyer_id AND n.subject_id = :order_id ORDER BY d.id
        """
    ),
    row=PinDelivery,
)
# Messages name the order, or were written between its placing and the dispute.
_SELECT_MESSAGES = Statement(
    text(
        """
        SELECT * FROM (
            SELECT m.sender, m.body, m.created_at, m.id
            FROM orders o JOIN conversations c ON c.buyer_id = o.buyer_id AND c.vendor_id = o.vendor_id
                JOIN messages m ON m.conversation_id = c.id
            WHERE o.id = :order_id AND m.removed_at IS NULL
                AND (m.order_id = o.id OR m.created_at BETWEEN o.created_at AND :until)
            ORDER BY m.number DESC LIMIT :limit
        ) newest ORDER BY id
        """
    ),
)
_SELECT_LISTINGS = Statement(
    text(
        """
        SELECT i.product_id, i.title, i.unit_price_minor, i.quantity, i.product_revision AS revision,
            p.revision AS current_revision, coalesce(nullif(ARRAY(
                SELECT m.key FROM unnest(i.image_ids) WITH ORDINALITY AS u (id, position) JOIN images m ON m.id = u.id
                ORDER BY u.position), '{}'), array_remove(ARRAY[i.image_key], NULL)) AS image_keys
        FROM order_items i JOIN products p ON p.id = i.product_id
        WHERE i.order_id = :order_id ORDER BY i.position
        """
    ),
    row=BoughtListing,
)


def collect_facts(session: Session, *, dispute: Dispute) -> DisputeFacts:
    """Collect the facts of a dispute, in five queries at most."""
    messages: list[dict[str, Any]] = _SELECT_MESSAGES.all(
        session,
        order_id=dispute.order_id,
        until=dispute.resolved_at or dispute.ruling_due_at,
        limit=MAX_MESSAGES,
    )
    return DisputeFacts(
        trail=list_trail(session, order_id=dispute.order_id),
        pin_deliveries=_SELECT_PIN_DELIVERIES.all(
            session, buyer_id=dispute.buyer_id, order_id=dispute.order_id
        ),
        messages=[ChatExtract(row["sender"], row["body"], row["created_at"]) for row in messages],
        listings=_SELECT_LISTINGS.all(session, order_id=dispute.order_id),
    )
