"""Messages of contacts as tickets: a message continues the contact's ticket, or opens a new ticket."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from marketplace.support import severity as severities, states, texts, tickets
from marketplace.support.models import SupportTicket

# These are no messages to a person.
_WITHOUT_TICKET = frozenset({"reaction", "system", "unsupported", "unknown"})


@dataclass(frozen=True)
class ContactText:
    """A stored message of a contact, in words.

    :ivar profile_id: the person with the contact's verified number; none if unknown
    """

    contact_id: UUID
    profile_id: UUID | None
    message_id: UUID
    type: str
    text: str | None


def record_in_ticket(session: Session, *, written: ContactText, now: datetime) -> None:
    """Append a message to the latest ticket of its contact, or open a ticket.

    The caller has locked the contact, so two messages of a contact reach the same ticket.
    """
    if written.type in _WITHOUT_TICKET:
        return
    body = (written.text or f"[{written.type}]")[: tickets.MAX_BODY_LENGTH]
    message = tickets.NewMessage(body, contact_message_id=written.message_id)
    ticket = session.scalar(
        select(SupportTicket)
        .where(
            SupportTicket.contact_id == written.contact_id,
            SupportTicket.status != states.CLOSED,
            or_(
                SupportTicket.resolved_at.is_(None),
                SupportTicket.resolved_at > now - tickets.REOPENING_PERIOD,
            ),
        )
        .order_by(SupportTicket.id.desc())
        .limit(1)
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    if ticket is not None:
        tickets.reply_as_user(session, ticket=ticket, author_id=written.profile_id, message=message, now=now)
        return
    tickets.create_ticket(
        session,
        origin=tickets.TicketOrigin(written.profile_id, contact_id=written.contact_id),
        subject=_subject_of(body),
        message=message,
        category=severities.OTHER,
        in_escrow=False,
        now=now,
    )


def _subject_of(body: str) -> str:
    first_line = " ".join(body.splitlines()[0].split()) if body.strip() else ""
    if len(first_line) < tickets.MIN_SUBJECT_LENGTH:
        return texts.CONTACT_SUBJECT
    return first_line[: tickets.MAX_SUBJECT_LENGTH]
