"""A past dispute of the buyer, about the refunded order."""

import hashlib
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from commands.seeding.applications import render_document
from marketplace.disputes import cases, states
from marketplace.disputes.models import Dispute, DisputeEvent, DisputeEvidence
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.media.documents import PDF
from marketplace.media.models import PrivateDocument
from marketplace.orders import states as order_states
from marketplace.orders.models import Order
from marketplace.services import Services
from marketplace.vendors.models import VendorProfile

_EVIDENCE_KEY = "evidence/demo-1.pdf"
_EVIDENCE_TEXT = "Messages with the vendor of the demo"
_RATIONALE = "The vendor wrote that the item was sold elsewhere, so the buyer gets the money back."


def store_evidence(services: Services) -> None:
    """Store the file of the demo's evidence. A stored file is replaced by the same content.

    :raises ProviderUnavailableError: the object storage does not accept files
    """
    services.storage.put(
        bucket=services.settings.s3_private_bucket,
        key=_EVIDENCE_KEY,
        content=render_document(_EVIDENCE_TEXT),
        content_type=PDF,
    )


def load_disputes(session: Session) -> int:
    """Add the dispute of the demo, if its order exists.

    :return: number of new disputes
    """
    order = session.get(Order, demo_ids.REFUNDED_ORDER)
    if session.get(Dispute, demo_ids.DISPUTE) is not None or order is None or order.refunded_at is None:
        return 0
    resolved_at, opened_at = order.refunded_at, order.refunded_at - timedelta(hours=5)
    store = session.get_one(VendorProfile, order.vendor_id)
    session.add(
        Dispute(
            id=demo_ids.DISPUTE,
            order_id=order.id,
            buyer_id=order.buyer_id,
            vendor_user_id=store.user_id,
            opened_by="buyer",
            order_status=order_states.PAID_ESCROW,
            reason="not_received",
            description="The vendor does not answer, and the order was never shipped.",
            desired_outcome=cases.REFUND,
            status=states.RESOLVED_BUYER,
            response_due_at=opened_at + cases.RESPONSE_TIME,
            finding_due_at=opened_at + cases.FINDING_TIME,
            ruling_due_at=opened_at + cases.RULING_TIME,
            response="Sorry, I sold the item elsewhere.",
            responded_at=opened_at + timedelta(hours=1),
            buyer_minor=order.total_minor,
            vendor_minor=0,
            rationale=_RATIONALE,
            resolved_at=resolved_at,
            created_at=opened_at,
            updated_at=resolved_at,
        )
    )
    session.flush()
    for event, actor, actor_id, at in (
        ("opened", "buyer", order.buyer_id, opened_at),
        ("responded", "vendor", store.user_id, opened_at + timedelta(hours=1)),
        ("ruled", "staff", None, resolved_at),
    ):
        session.add(
            DisputeEvent(dispute_id=demo_ids.DISPUTE, event=event, actor=actor, actor_id=actor_id, at=at)
        )
        session.flush()
    _add_evidence(session, order.buyer_id, opened_at)
    return 1


def _add_evidence(session: Session, buyer_id: UUID, opened_at: datetime) -> None:
    content = render_document(_EVIDENCE_TEXT)
    document_id = seeded_id(SeededKind.DISPUTE_EVIDENCE, 2)
    session.add(
        PrivateDocument(
            id=document_id,
            owner_id=buyer_id,
            key=_EVIDENCE_KEY,
            content_type=PDF,
            byte_count=len(content),
            status="ready",
            created_at=opened_at,
        )
    )
    session.flush()
    session.add(
        DisputeEvidence(
            id=demo_ids.DISPUTE_EVIDENCE,
            dispute_id=demo_ids.DISPUTE,
            sent_by="buyer",
            kind="receipt",
            note="The chat with the vendor.",
            document_id=document_id,
            content_type=PDF,
            byte_count=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            created_at=opened_at + timedelta(minutes=5),
        )
    )
