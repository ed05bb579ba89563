"""Replies to support by e-mail: signed addresses of tickets, and the mails that arrive there."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from email.utils import parseaddr
from typing import Literal
from uuid import UUID

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.support import states, texts, tickets
from marketplace.support.models import SupportTicket, SupportTicketMessage

_log = structlog.get_logger(__name__)
_SIGNATURE_LENGTH = 24  # hexadecimal digits, of which an address can carry few
_ADDRESS = re.compile(rf"ticket-([0-9a-f]{{32}})-([0-9a-f]{{{_SIGNATURE_LENGTH}}})@", re.ASCII)
_LINK = re.compile(r"^/support/([0-9a-f-]{36})$")
# Mail programs put the answered mail below such a line.
_QUOTE_HEADER = re.compile(
    r"^(?:On .{1,200} wrote:|-{2,}\s?Original Message\s?-{2,}|From: .{1,200}|_{10,})\s*$", re.IGNORECASE
)

Outcome = Literal["accepted", "duplicate", "ignored"]


@dataclass(frozen=True)
class InboundEmail:
    """A received e-mail.

    :ivar message_id: the Message-ID, the same for each delivery
    """

    sender: str
    recipient: str
    subject: str
    text: str
    message_id: str


def make_reply_address(ticket_id: UUID, *, key: str, domain: str) -> str:
    """Return the address that receives replies to a ticket.

    :param key: the key that signs the address
    """
    return f"ticket-{ticket_id.hex}-{_sign(ticket_id, key)}@{domain}"


def reply_address_of_link(link: str | None, *, key: str, domain: str) -> str | None:
    """Return the address for replies to a notification about a ticket.

    :param link: the notification's path in the client application
    :param domain: empty means that replies are not received
    """
    match = _LINK.match(link or "")
    return make_reply_address(UUID(match[1]), key=key, domain=domain) if match and domain else None


def _sign(ticket_id: UUID, key: str) -> str:
    digest = hmac.digest(key.encode(), b"support-reply:" + ticket_id.bytes, hashlib.sha256)
    return digest.hex()[:_SIGNATURE_LENGTH]


def record_email(
    session: Session, *, email: InboundEmail, key: str, now: datetime
) -> tuple[Outcome, UUID | None]:
    """Append an e-mail to the ticket of its address. A mail to a closed ticket opens a new ticket.

    A mail is ignored if the address is not ours, or if the sender's address is not the address of the ticket's creator.

    :param key: the key that signed the address
    :return: the outcome, and the id of the ticket with the message
    """
    ticket = _find_ticket(session, email.recipient, key)
    if ticket is None or not _is_from_creator(session, ticket, email.sender):
        _log.info("support mail ignored", knownAddress=ticket is not None)
        return "ignored", None
    stored = session.scalar(
        select(SupportTicketMessage.ticket_id).where(
            SupportTicketMessage.email_message_id == email.message_id
        )
    )
    if stored is not None:
        return "duplicate", stored
    body = strip_quotes(email.text)[: tickets.MAX_BODY_LENGTH]
    if not body:
        return "ignored", ticket.id
    message = tickets.NewMessage(body, email_message_id=email.message_id)
    if tickets.takes_messages(ticket, now=now):
        tickets.reply_as_user(session, ticket=ticket, author_id=ticket.creator_id, message=message, now=now)
        return "accepted", ticket.id
    opened = tickets.create_ticket(
        session,
        origin=tickets.TicketOrigin(ticket.creator_id, ticket.order_id),
        subject=_subject_of(email.subject),
        message=message,
        category=ticket.category,
        in_escrow=False,
        now=now,
    )
    return "accepted", opened.id


def _find_ticket(session: Session, recipient: str, key: str) -> SupportTicket | None:
    """Lock the ticket of an address, or the ticket that it was merged into."""
    match = _ADDRESS.match(parseaddr(recipient)[1].casefold())
    if match is None or not hmac.compare_digest(_sign(UUID(match[1]), key), match[2]):
        return None
    ticket = _lock_ticket(session, UUID(match[1]))
    while ticket is not None and ticket.status == states.CLOSED and ticket.merged_into_id is not None:
        ticket = _lock_ticket(session, ticket.merged_into_id)
    return ticket


def _lock_ticket(session: Session, ticket_id: UUID) -> SupportTicket | None:
    return session.scalar(
        select(SupportTicket).where(SupportTicket.id == ticket_id).with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )


def _is_from_creator(session: Session, ticket: SupportTicket, sender: str) -> bool:
    known = session.scalar(select(Profile.email).where(Profile.id == ticket.creator_id))
    return known is not None and parseaddr(sender)[1].casefold() == known.casefold()


def strip_quotes(text: str) -> str:
    """Return the new part of a reply, without the quoted mail below and without quoted lines."""
    kept: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if _QUOTE_HEADER.match(line):
            break
        if not line.startswith(">"):
            kept.append(line.rstrip())
    return "\n".join(kept).strip()


def _subject_of(subject: str) -> str:
    words = " ".join(re.sub(r"^(?:\s*(?:re|fwd?|aw)\s*:)+", "", subject, flags=re.IGNORECASE).split())
    return (
        words[: tickets.MAX_SUBJECT_LENGTH]
        if len(words) >= tickets.MIN_SUBJECT_LENGTH
        else texts.EMAIL_SUBJECT
    )
