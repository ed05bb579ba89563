"""Refunds: money that goes back to its buyer, out of escrow or straight from a charge that nothing took.

A refund is written, with its ledger transaction, in the transaction of its cause. What the gateway is to send
back waits in ``refunds_in_transit`` until the gateway tells that it did. The wallet is paid at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import structlog
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.notifications.operations import notify
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import states
from marketplace.payments.models import Refund
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway import GatewayRefund, PaymentGateway

_log = structlog.get_logger(__name__)

SEND_TOPIC = "refund.send"
_NOTE = "marketplace refund "

Destination = Literal["gateway", "wallet"]

_CHARGES_OF_ORDER = Statement(
    text(
        """
        SELECT c.id, i.reference, c.principal_minor - c.refunded_minor AS left_minor
        FROM gateway_charges c
            JOIN payment_intents i ON i.id = c.intent_id
            JOIN payment_allocations a ON a.intent_id = i.id AND a.order_id = :order_id
        WHERE c.outcome = 'applied'
        ORDER BY c.id FOR NO KEY UPDATE OF c
        """
    )
)
_REFUNDED_BY_GATEWAY = Statement(
    text(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint AS minor FROM refunds
        WHERE order_id = :order_id AND destination = 'gateway'
        """
    )
)
_TAKE_OF_CHARGE = Statement(
    text("UPDATE gateway_charges SET refunded_minor = refunded_minor + :amount_minor WHERE id = :charge_id")
)
_INSERT = Statement(
    insert(Refund).returning(Refund.id),
    columns=(
        *("order_id", "charge_id", "buyer_id", "destination", "amount_minor", "status", "cause", "reason"),
        *("requested_by", "settled_at", "created_at", "updated_at"),
    ),
)
_TO_SEND = Statement(
    text(
        """
        SELECT r.id, r.amount_minor, r.asked_at IS NOT NULL AS was_asked, i.reference
        FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id JOIN payment_intents i ON i.id = c.intent_id
        WHERE r.id = :refund_id AND r.status = 'pending'
        """
    )
)
_ASKING = Statement(text("UPDATE refunds SET asked_at = :now WHERE id = :refund_id AND status = 'pending'"))
_LOCK = Statement(
    text(
        """
        SELECT id, order_id, charge_id, buyer_id, amount_minor, status, gateway_refund_id FROM refunds
        WHERE id = :refund_id FOR NO KEY UPDATE
        """
    )
)
_BY_GATEWAY_ID = Statement(text("SELECT id FROM refunds WHERE gateway_refund_id = :gateway_refund_id"))
_MOVE = Statement(
    text(
        """
        UPDATE refunds SET status = :status, gateway_refund_id = coalesce(:gateway_refund_id, gateway_refund_id),
            settled_at = :settled_at, updated_at = :now
        WHERE id = :refund_id
        """
    )
)
_TRIGGERS = {
    "processed": "process",
    "failed": "fail",
    "needs-attention": "need-attention",
    "pending": "submit",
    "processing": "submit",
}


@dataclass(frozen=True)
class Request:
    """What a refund is for.

    :param cause: names it once and for all, such as ``order:<id>:cancel``
    :param reason: for people
    :param requested_by: the officer or party, or none of a refund that starts by itself
    """

    cause: str
    reason: str
    requested_by: UUID | None = None


@dataclass(frozen=True)
class ToSend:
    """A refund that waits to be sent; ``was_asked`` says that the gateway may know it already."""

    id: UUID
    amount_minor: int
    was_asked: bool
    reference: str

    @property
    def note(self) -> str:
        """This function will give what the gateway is told to keep with the refund, and gives back."""
        return f"{_NOTE}{self.id}"


def refund_order(
    session: Session,
    *,
    order: LockedOrder,
    amount_minor: int,
    destination: Destination,
    request: Request,
    now: datetime,
) -> list[UUID]:
    """This function will refund money of a locked order's escrow; the caller moves the escrow's own record.

    To the gateway goes at most what came by it; what the wallet paid goes back to the wallet. Each part is a
    refund of its own, of the charge that it is taken from.

    :param amount_minor: kobo; at most what escrow holds of the order
    :param destination: where the gateway's part goes
    :return: the refunds' ids
    :raises AlreadyPostedError: the cause was refunded before
    """
    left = amount_minor
    made: list[UUID] = []
    if destination == "gateway":
        sent = _REFUNDED_BY_GATEWAY.one(session, order_id=order.id)["minor"]
        by_gateway = min(left, order.total_minor - order.wallet_minor - sent)
        for charge in _CHARGES_OF_ORDER.all(session, order_id=order.id):
            part = min(by_gateway, charge["left_minor"])
            if part > 0:
                made.append(
                    _write(
                        session,
                        order,
                        amount_minor=part,
                        charge_id=charge["id"],
                        request=request,
                        number=len(made),
                        now=now,
                    )
                )
                by_gateway -= part
                left -= part
    if left > 0:
        made.append(
            _write(
                session,
                order,
                amount_minor=left,
                charge_id=None,
                request=request,
                number=len(made),
                now=now,
            )
        )
    return made


def _write(
    session: Session,
    order: LockedOrder,
    *,
    amount_minor: int,
    charge_id: UUID | None,
    request: Request,
    number: int,
    now: datetime,
) -> UUID:
    refund_id = _insert(
        session,
        order_id=order.id,
        charge_id=charge_id,
        buyer_id=order.buyer_id,
        amount_minor=amount_minor,
        request=request,
        number=number,
        now=now,
    )
    post(
        session,
        kind="refund",
        source=f"refund:{refund_id}",
        description=f"Refund of order {order.number}",
        postings=[
            Posting(accounts.ESCROW, "debit", amount_minor, order.id),
            *_to_buyer(order.buyer_id, amount_minor, on_the_way=charge_id is not None, order_id=order.id),
        ],
        now=now,
    )
    return refund_id


def return_charge(
    session: Session,
    *,
    charge_id: UUID,
    buyer_id: UUID,
    amount_minor: int,
    order_id: UUID | None,
    request: Request,
    description: str,
    source: accounts.Account,
    now: datetime,
) -> UUID:
    """This function will send a charge, or a part of it, back to where it came from: nothing takes it.

    :param charge_id: of our row
    :param amount_minor: kobo
    :param order_id: the order that it was meant for, if there is one
    :param description: for the ledger
    :param source: the account that it is in: ``gateway_clearing`` of a charge not booked yet, or quarantine
    :return: the refund's id
    """
    refund_id = _insert(
        session,
        order_id=order_id,
        charge_id=charge_id,
        buyer_id=buyer_id,
        amount_minor=amount_minor,
        request=request,
        number=0,
        now=now,
    )
    post(
        session,
        kind="refund",
        source=f"refund:{refund_id}",
        description=description,
        postings=[
            Posting(source, "debit", amount_minor, order_id),
            *_to_buyer(buyer_id, amount_minor, on_the_way=True, order_id=order_id),
        ],
        now=now,
    )
    return refund_id


def _to_buyer(buyer_id: UUID, amount_minor: int, *, on_the_way: bool, order_id: UUID | None) -> list[Posting]:
    """Through the buyer's own account, so that their statement shows it; on from there by the gateway."""
    wallet = accounts.wallet(buyer_id)
    postings = [Posting(wallet, "credit", amount_minor, order_id)]
    if on_the_way:
        postings += [
            Posting(wallet, "debit", amount_minor, order_id),
            Posting(accounts.REFUNDS_IN_TRANSIT, "credit", amount_minor, order_id),
        ]
    return postings


def _insert(
    session: Session,
    *,
    order_id: UUID | None,
    charge_id: UUID | None,
    buyer_id: UUID,
    amount_minor: int,
    request: Request,
    number: int,
    now: datetime,
) -> UUID:
    sends = charge_id is not None
    refund_id: UUID = _INSERT.one(
        session,
        order_id=order_id,
        charge_id=charge_id,
        buyer_id=buyer_id,
        destination="gateway" if sends else "wallet",
        amount_minor=amount_minor,
        status=states.REFUND.initial if sends else states.PROCESSED,
        cause=request.cause if number == 0 else f"{request.cause}:{number + 1}",
        reason=request.reason,
        requested_by=request.requested_by,
        settled_at=None if sends else now,
        created_at=now,
        updated_at=now,
    )["id"]
    if sends:
        _TAKE_OF_CHARGE.run(session, charge_id=charge_id, amount_minor=amount_minor)
        enqueue_sending(session, refund_id=refund_id, now=now)
    return refund_id


def enqueue_sending(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """This function will have a pending refund sent by the gateway, once this transaction has committed."""
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=SEND_TOPIC,
        payload={"refundId": str(refund_id)},
        due_at=now,
    )


def read_to_send(session: Session, *, refund_id: UUID, now: datetime) -> ToSend | None:
    """This function will give a refund that waits to be sent, noting that the gateway is asked now.

    :param session: in autocommit: the note must stand before the call is made
    :return: none if it was sent, or settled, already
    """
    row = _TO_SEND.first(session, refund_id=refund_id)
    if row is None:
        return None
    _ASKING.run(session, refund_id=refund_id, now=now)
    return ToSend(**row)


def send(gateway: PaymentGateway, found: ToSend | None) -> GatewayRefund | None:
    """This function will have the gateway send a refund, unless it knows of it already.

    :return: what the gateway says of it; none if there is nothing to send
    :raises ProviderUnavailableError: no usable answer: it is asked again later, by the note first
    """
    if found is None:
        return None
    if found.was_asked:
        for known in gateway.refunds_of(found.reference):
            if known.note == found.note:
                return known
    try:
        return gateway.refund(reference=found.reference, amount_minor=found.amount_minor, note=found.note)
    except ProviderRefusedError as error:
        _log.warning("refund refused", refundId=str(found.id), status=error.status)
        return GatewayRefund(id="", status="failed", amount_minor=found.amount_minor, note=found.note)


def settle(session: Session, *, refund_id: UUID, told: GatewayRefund, now: datetime) -> str:
    """This function will note what the gateway says of a refund, and book it when the money has left.

    It may come any number of times and in any order: what is over stays as it is.

    :param refund_id: ours
    :param told: the gateway's word
    :return: the refund's status
    """
    row = _LOCK.one(session, refund_id=refund_id)
    trigger = _TRIGGERS.get(told.status)
    if trigger is None or not states.REFUND.allows(row["status"], trigger):
        return str(row["status"])
    status = states.REFUND.target(row["status"], trigger)
    _MOVE.run(
        session,
        refund_id=refund_id,
        status=status,
        gateway_refund_id=told.id or None,
        settled_at=now if status == states.PROCESSED else None,
        now=now,
    )
    if status == states.PROCESSED:
        post(
            session,
            kind="refund_sent",
            source=f"refund:{refund_id}",
            description="Refund sent by the gateway",
            postings=[
                Posting(accounts.REFUNDS_IN_TRANSIT, "debit", row["amount_minor"], row["order_id"]),
                Posting(accounts.GATEWAY_CLEARING, "credit", row["amount_minor"], row["order_id"]),
            ],
            now=now,
        )
    _tell(session, row, status, now=now)
    return status


def find_by_event(session: Session, told: GatewayRefund) -> UUID | None:
    """This function will find the refund that an event of the gateway is about: by its id, or by our note."""
    row = _BY_GATEWAY_ID.first(session, gateway_refund_id=told.id)
    if row is not None:
        return UUID(str(row["id"]))
    name = told.note.removeprefix(_NOTE)
    try:
        return UUID(name) if name != told.note else None
    except ValueError:
        return None


def _tell(session: Session, row: dict[str, Any], status: str, *, now: datetime) -> None:
    """Tell the buyer of what became of their money; a refund that fails is finance's to mend first."""
    if status != states.PROCESSED:
        return
    notify(
        session,
        user_id=row["buyer_id"],
        type="refund_processed",
        title="Your refund was sent",
        body="The money is on its way to where you paid from. Your bank may take a few days to show it.",
        link=f"/orders/{row['order_id']}" if row["order_id"] else None,
        cause=f"refund:{row['id']}:processed",
        now=now,
    )


def refunds_of(session: Session, *, order_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """This function will list the refunds of orders, the earliest first."""
    return _OF_ORDERS.all(session, order_ids=list(order_ids))


_OF_ORDERS = Statement(
    text(
        """
        SELECT id, order_id AS "orderId", destination, amount_minor AS "amountMinor", status, reason,
            created_at AS "createdAt", settled_at AS "settledAt"
        FROM refunds WHERE order_id = ANY(:order_ids) ORDER BY id
        """
    )
)
