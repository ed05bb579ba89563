"""Tickets of people: open, reply and rate."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, ValidationError, found
from marketplace.notifications.operations import notify
from marketplace.orders.models import Escrow, Order
from marketplace.platform.campuses.holidays import fetch_closed_days
from marketplace.support import answers, duty, severity as severities, states, texts
from marketplace.support.models import SupportAttachment, SupportTicket, SupportTicketMessage
from marketplace.vendors.models import VendorProfile

MIN_SUBJECT_LENGTH, MAX_SUBJECT_LENGTH, MAX_BODY_LENGTH = 3, 140, 5_000
REOPENING_PERIOD = timedelta(days=7)

TicketRole = Literal["user", "staff"]


class TicketClosedError(ConflictError):
    """The ticket is closed or merged, so it takes no more messages."""

    reason = "ticket-closed"


class TicketNotResolvedError(ConflictError):
    """The ticket cannot be rated yet."""

    reason = "ticket-not-resolved"


@dataclass(frozen=True)
class NewMessage:
    """A message to append. An attachment is a checked document with a name."""

    body: str | None
    document_id: UUID | None = None
    name: str = ""
    is_internal: bool = False
    contact_message_id: UUID | None = None
    email_message_id: str | None = None


@dataclass(frozen=True)
class TicketOrigin:
    """The author of a new ticket: a person, a contact of the messaging provider, or both; and the order."""

    creator_id: UUID | None
    order_id: UUID | None = None
    contact_id: UUID | None = None


def open_ticket(
    session: Session,
    *,
    creator_id: UUID,
    subject: str,
    message: str,
    category: str,
    order_id: UUID | None,
    now: datetime,
) -> SupportTicket:
    """Open a ticket, and assign the ticket to a member of staff on duty.

    :param category: one of ``severity.CATEGORIES``
    :raises ValidationError: the order is not an order of the person
    """
    return create_ticket(
        session,
        origin=TicketOrigin(creator_id, order_id),
        subject=subject,
        message=NewMessage(message),
        category=category,
        in_escrow=order_id is not None and _is_in_escrow(session, order_id=order_id, user_id=creator_id),
        now=now,
    )


def create_ticket(
    session: Session,
    *,
    origin: TicketOrigin,
    subject: str,
    message: NewMessage,
    category: str,
    in_escrow: bool,
    now: datetime,
) -> SupportTicket:
    """Create a ticket with the first message, and assign the ticket to a member of staff on duty.

    :param in_escrow: whether escrow holds money of the order
    """
    severity = severities.classify(
        category=category, wording=f"{subject}\n{message.body or ''}", in_escrow=in_escrow
    )
    due_at = find_response_due_at(session, severity=severity, creator_id=origin.creator_id, now=now)
    ticket = SupportTicket(
        creator_id=origin.creator_id,
        contact_id=origin.contact_id,
        order_id=origin.order_id,
        subject=subject,
        category=category,
        severity=severity,
        status=states.TICKET.initial,
        message_count=0,
        due_at=due_at,
        response_due_at=due_at,
        resolution_due_at=severities.resolution_due_at(severity, since=now),
        created_at=now,
        updated_at=now,
    )
    session.add(ticket)
    append_message(
        session, ticket=ticket, author="user", author_id=origin.creator_id, message=message, now=now
    )
    duty.assign_next(session, ticket=ticket, now=now)
    return ticket


def _is_in_escrow(session: Session, *, order_id: UUID, user_id: UUID) -> bool:
    """Return whether escrow holds money of an order.

    :raises ValidationError: the person is no party to the order
    """
    status = session.scalar(
        select(Escrow.status)
        .join(Order, Order.id == Escrow.order_id)
        .join(VendorProfile, VendorProfile.id == Order.vendor_id)
        .where(
            Order.id == order_id,
            (Order.buyer_id == user_id) | (VendorProfile.user_id == user_id) & Order.paid_at.is_not(None),
        )
    )
    if status is None:
        raise ValidationError.of("orderId", texts.ORDER_NOT_OWN)
    return status in ("held", "frozen")


def find_response_due_at(
    session: Session, *, severity: str, creator_id: UUID | None, now: datetime
) -> datetime:
    """Return the time by which staff should answer a message of now, with the holidays of the creator's campus."""
    campus_id = session.scalar(select(Profile.campus_id).where(Profile.id == creator_id))
    closed = fetch_closed_days(session, campus_ids=[campus_id] if campus_id else [], now=now)
    return severities.response_due_at(
        severity,
        since=now,
        closed_days=closed.of(campus_id) if campus_id else closed.names.get(None, {}).keys(),
    )


def append_message(
    session: Session,
    *,
    ticket: SupportTicket,
    author: str,
    author_id: UUID | None,
    message: NewMessage,
    now: datetime,
) -> SupportTicketMessage:
    """Append a message to a new or locked ticket. The state does not change."""
    ticket.message_count += 1
    session.flush()
    appended = SupportTicketMessage(
        ticket_id=ticket.id,
        number=ticket.message_count,
        author=author,
        author_id=author_id,
        is_internal=message.is_internal,
        body=message.body,
        contact_message_id=message.contact_message_id,
        email_message_id=message.email_message_id,
        created_at=now,
    )
    session.add(appended)
    session.flush()
    if message.document_id is not None:
        session.add(
            SupportAttachment(document_id=message.document_id, message_id=appended.id, name=message.name)
        )
        session.flush()
    return appended


def find_ticket(
    session: Session, *, ticket_id: UUID, caller: Caller, lock: bool = False
) -> tuple[SupportTicket, TicketRole]:
    """Return a ticket, and whether the caller is its creator or staff.

    :raises NotFoundError: the ticket does not exist, or the caller is neither
    """
    query = select(SupportTicket).where(SupportTicket.id == ticket_id)
    if lock:
        query = query.with_for_update(key_share=True)
    ticket = session.scalar(query, execution_options={"populate_existing": True})
    if ticket is not None and ticket.creator_id == caller.id:
        return ticket, "user"
    return found(ticket if caller.is_staff else None, texts.TICKET_NOT_FOUND), "staff"


def reply(
    session: Session, *, ticket_id: UUID, caller: Caller, message: NewMessage, now: datetime
) -> SupportTicketMessage:
    """Append a message of the creator or of staff, and pass the turn to the other side.

    A reply of the creator reopens a ticket that was resolved less than ``REOPENING_PERIOD`` ago.

    :raises NotFoundError: the caller is neither the creator nor staff
    :raises TicketClosedError: the ticket is closed or merged, or was resolved too long ago
    :raises IllegalTransitionError: staff reply to a resolved ticket
    """
    ticket, role = find_ticket(session, ticket_id=ticket_id, caller=caller, lock=True)
    _ensure_open(session, ticket, now=now)
    if role == "staff":
        return _reply_as_staff(session, ticket, caller.id, message, now)
    return reply_as_user(session, ticket=ticket, author_id=caller.id, message=message, now=now)


def reply_as_user(
    session: Session, *, ticket: SupportTicket, author_id: UUID | None, message: NewMessage, now: datetime
) -> SupportTicketMessage:
    """Append a message of the user to a locked ticket that is not closed."""
    due_at = ticket.due_at or find_response_due_at(
        session, severity=ticket.severity, creator_id=ticket.creator_id, now=now
    )
    target = states.TICKET.target(ticket.status, states.USER_REPLY)
    if ticket.status == states.RESOLVED:
        ticket.resolved_at = None
        ticket.reopenings += 1
    ticket.due_at = due_at
    change_status(ticket, target, now)
    appended = append_message(
        session, ticket=ticket, author="user", author_id=author_id, message=message, now=now
    )
    if ticket.assignee_id is None:
        duty.assign_next(session, ticket=ticket, now=now)
    else:
        notify(
            session,
            user_id=ticket.assignee_id,
            type="support_user_replied",
            title=texts.USER_REPLIED_TITLE,
            body=texts.USER_REPLIED_BODY.format(number=ticket.number, subject=ticket.subject),
            link=f"/admin/support/{ticket.id}",
            cause=f"ticket:{ticket.id}:message:{appended.number}",
            now=now,
        )
    return appended


def _reply_as_staff(
    session: Session, ticket: SupportTicket, author_id: UUID, message: NewMessage, now: datetime
) -> SupportTicketMessage:
    change_status(ticket, states.TICKET.target(ticket.status, states.STAFF_REPLY), now)
    ticket.due_at = None
    ticket.assignee_id = ticket.assignee_id or author_id
    ticket.first_responded_at = ticket.first_responded_at or now
    appended = append_message(
        session, ticket=ticket, author="staff", author_id=author_id, message=message, now=now
    )
    if ticket.contact_id is not None:
        appended.delivery_status = answers.QUEUED
        session.flush()
        answers.request_answer(session, message_id=appended.id, now=now)
    notify_creator(
        session,
        ticket=ticket,
        kind="support_reply",
        title=texts.REPLY_TITLE,
        body=texts.REPLY_BODY,
        cause=f"message:{appended.number}",
        now=now,
    )
    return appended


def notify_creator(
    session: Session,
    *,
    ticket: SupportTicket,
    kind: str,
    title: str,
    body: str,
    cause: str,
    now: datetime,
) -> None:
    """Notify the creator of a ticket. A contact without a profile is not notified.

    :param cause: identifies the event among the ticket's events
    """
    if ticket.creator_id is None:
        return
    notify(
        session,
        user_id=ticket.creator_id,
        type=kind,
        title=title,
        body=body.format(number=ticket.number, subject=_as_sentence(ticket.subject)),
        link=f"/support/{ticket.id}",
        cause=f"ticket:{ticket.id}:{cause}",
        now=now,
    )


def _as_sentence(subject: str) -> str:
    return subject if subject.endswith((".", "!", "?")) else f"{subject}."


def takes_messages(ticket: SupportTicket, *, now: datetime) -> bool:
    """Return whether a ticket is neither closed nor resolved too long ago."""
    expired = ticket.resolved_at is not None and ticket.resolved_at + REOPENING_PERIOD <= now
    return ticket.status != states.CLOSED and not expired


def _ensure_open(session: Session, ticket: SupportTicket, *, now: datetime) -> None:
    if ticket.merged_into_id is not None:
        target = session.get_one(SupportTicket, ticket.merged_into_id)
        raise TicketClosedError(texts.TICKET_MERGED.format(number=target.number))
    if not takes_messages(ticket, now=now):
        raise TicketClosedError(texts.TICKET_CLOSED)


def change_status(ticket: SupportTicket, status: str, now: datetime) -> None:
    """Set the status of a locked ticket, also if the status stays the same."""
    ticket.status = status
    ticket.revision += 1
    ticket.updated_at = now


def rate(
    session: Session, *, ticket_id: UUID, creator_id: UUID, rating: int, comment: str | None, now: datetime
) -> SupportTicket:
    """Rate a resolved or closed ticket as the creator. A later rating replaces an earlier one.

    :param rating: 1 to 5
    :raises NotFoundError: the person has no such ticket
    :raises TicketNotResolvedError: the ticket is not resolved
    """
    ticket = found(
        session.scalar(
            select(SupportTicket)
            .where(SupportTicket.id == ticket_id, SupportTicket.creator_id == creator_id)
            .with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        texts.TICKET_NOT_FOUND,
    )
    if ticket.resolved_at is None:
        raise TicketNotResolvedError(texts.NOT_RESOLVED_YET)
    ticket.rating, ticket.rating_comment, ticket.rated_at = rating, comment, now
    change_status(ticket, ticket.status, now)
    session.flush()
    return ticket
