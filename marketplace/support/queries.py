"""Queries of tickets: a person's tickets, messages, and the inbox of staff."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.support import states, texts
from marketplace.support.models import SupportTicket
from marketplace.support.tickets import find_ticket

WAITING = "waiting"
STATUS_FILTERS = (WAITING, *sorted(states.TICKET.states))
MINE, UNASSIGNED = "me", "none"


def list_own_tickets(session: Session, *, creator_id: UUID, page: PageRequest) -> Page:
    """List the tickets of a person, the newest first."""
    query = select(SupportTicket).where(SupportTicket.creator_id == creator_id)
    [before] = page.after("id")
    if before is not None:
        query = query.where(SupportTicket.id < before)
    rows = session.scalars(query.order_by(SupportTicket.id.desc()).limit(page.limit + 1))
    return page_of(list(rows), request=page, position_of=lambda ticket: [str(ticket.id)])


@dataclass(frozen=True)
class AttachmentRow:
    """An attachment of a message, with the object's key."""

    message_id: UUID
    id: UUID
    name: str
    content_type: str
    byte_count: int
    key: str


@dataclass(frozen=True)
class TicketMessageRow:
    """A message of a ticket with the author's name."""

    id: UUID
    number: int
    author: str
    author_name: str | None
    is_internal: bool
    body: str | None
    created_at: datetime
    delivery_status: str | None


_SELECT_MESSAGES = Statement(
    text(
        """
        SELECT m.id, m.number, m.author, p.name AS author_name, m.is_internal, m.body, m.created_at,
            m.delivery_status
        FROM support_ticket_messages m LEFT JOIN profiles p ON p.id = m.author_id
        WHERE m.ticket_id = :ticket_id AND m.number > :after AND (:internal OR NOT m.is_internal)
        ORDER BY m.number LIMIT :limit
        """
    ),
    row=TicketMessageRow,
)


def list_messages(
    session: Session, *, ticket_id: UUID, caller: Caller, page: PageRequest
) -> tuple[Page, list[AttachmentRow]]:
    """List the messages of a ticket in order, with their attachments. Internal notes are for staff.

    :raises NotFoundError: the caller is neither the creator nor staff
    """
    ticket, role = find_ticket(session, ticket_id=ticket_id, caller=caller)
    [after] = page.after("number")
    rows = _SELECT_MESSAGES.all(
        session, ticket_id=ticket.id, after=after or 0, internal=role == "staff", limit=page.limit + 1
    )
    listed = page_of(rows, request=page, position_of=lambda message: [message.number])
    return listed, list_attachments(session, message_ids=[message.id for message in listed.items])


_SELECT_MESSAGE = Statement(
    text(
        """
        SELECT m.id, m.number, m.author, p.name AS author_name, m.is_internal, m.body, m.created_at,
            m.delivery_status
        FROM support_ticket_messages m LEFT JOIN profiles p ON p.id = m.author_id WHERE m.id = :message_id
        """
    ),
    row=TicketMessageRow,
)


def fetch_message(session: Session, *, message_id: UUID) -> tuple[TicketMessageRow, list[AttachmentRow]]:
    """Fetch a message that exists, with the attachments."""
    message = _SELECT_MESSAGE.one(session, message_id=message_id)
    return message, list_attachments(session, message_ids=[message.id])


_SELECT_ATTACHMENTS = Statement(
    text(
        """
        SELECT a.message_id, d.id, a.name, d.content_type, d.byte_count, d.key
        FROM support_attachments a JOIN private_documents d ON d.id = a.document_id
        WHERE a.message_id = ANY(:message_ids) ORDER BY a.message_id, a.document_id
        """
    ),
    row=AttachmentRow,
)


def list_attachments(session: Session, *, message_ids: list[UUID]) -> list[AttachmentRow]:
    """List the attachments of messages."""
    return _SELECT_ATTACHMENTS.all(session, message_ids=message_ids) if message_ids else []


@dataclass(frozen=True)
class StaffTicket:
    """A ticket as staff see it, with names of people and the order's number."""

    id: UUID
    number: str
    subject: str
    category: str
    severity: str
    status: str
    tags: list[str]
    creator_id: UUID | None
    creator_name: str | None
    assignee_id: UUID | None
    assignee_name: str | None
    order_id: UUID | None
    order_number: str | None
    message_count: int
    due_at: datetime | None
    response_due_at: datetime
    resolution_due_at: datetime
    first_responded_at: datetime | None
    resolved_at: datetime | None
    closed_at: datetime | None
    reopenings: int
    merged_into_id: UUID | None
    rating: int | None
    rating_comment: str | None
    revision: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class InboxFilter:
    """The filters of the inbox. None selects all.

    :ivar status: one of ``STATUS_FILTERS``
    :ivar assignee: ``me``, ``none``, or the id of a person
    """

    status: str = WAITING
    assignee: str | None = None
    severity: str | None = None
    category: str | None = None
    tag: str | None = None
    creator_id: UUID | None = None


_STAFF_TICKETS_SQL = """
    SELECT t.id, t.number, t.subject, t.category, t.severity, t.status, t.tags, t.creator_id,
        coalesce(c.name, k.display_name) AS creator_name, t.assignee_id, a.name AS assignee_name, t.order_id,
        o.number AS order_number, t.message_count, t.due_at, t.response_due_at, t.resolution_due_at,
        t.first_responded_at, t.resolved_at, t.closed_at, t.reopenings, t.merged_into_id, t.rating, t.rating_comment,
        t.revision, t.created_at, t.updated_at
    FROM support_tickets t LEFT JOIN profiles c ON c.id = t.creator_id LEFT JOIN profiles a ON a.id = t.assignee_id
        LEFT JOIN orders o ON o.id = t.order_id LEFT JOIN support_contacts k ON k.id = t.contact_id
"""
_FILTERS_SQL = """
    AND (CAST(:assignee_id AS uuid) IS NULL OR t.assignee_id = CAST(:assignee_id AS uuid))
    AND (NOT :unassigned OR t.assignee_id IS NULL)
    AND (CAST(:severity AS text) IS NULL OR t.severity = CAST(:severity AS text))
    AND (CAST(:category AS text) IS NULL OR t.category = CAST(:category AS text))
    AND (CAST(:tag AS text) IS NULL OR t.tags @> ARRAY[CAST(:tag AS text)])
    AND (CAST(:creator_id AS uuid) IS NULL OR t.creator_id = CAST(:creator_id AS uuid))
"""
_SELECT_WAITING = Statement(
    text(
        f"""
        {_STAFF_TICKETS_SQL}
        WHERE t.due_at IS NOT NULL AND (t.due_at, t.id) > (:due_at, CAST(:id AS uuid)) {_FILTERS_SQL}
        ORDER BY t.due_at, t.id LIMIT :limit
        """
    ),
    row=StaffTicket,
)
_SELECT_WITH_STATUS = Statement(
    text(
        f"""
        {_STAFF_TICKETS_SQL} WHERE t.status = :status AND t.id < CAST(:id AS uuid) {_FILTERS_SQL}
        ORDER BY t.id DESC LIMIT :limit
        """
    ),
    row=StaffTicket,
)
_FIRST_TIME = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


def list_inbox(session: Session, *, caller: Caller, filters: InboxFilter, page: PageRequest) -> Page:
    """List tickets for staff: waiting tickets by the time when an answer is due, others from the newest."""
    chosen = {
        "assignee_id": {None: None, UNASSIGNED: None, MINE: caller.id}.get(
            filters.assignee, filters.assignee
        ),
        "unassigned": filters.assignee == UNASSIGNED,
        "severity": filters.severity,
        "category": filters.category,
        "tag": filters.tag,
        "creator_id": filters.creator_id,
        "limit": page.limit + 1,
    }
    if filters.status == WAITING:
        due_at, after_id = page.after("time", "id")
        rows = _SELECT_WAITING.all(session, due_at=due_at or _FIRST_TIME, id=after_id or _FIRST_ID, **chosen)
        return page_of(rows, request=page, position_of=_waiting_position)
    [before_id] = page.after("id")
    rows = _SELECT_WITH_STATUS.all(session, status=filters.status, id=before_id or _LAST_ID, **chosen)
    return page_of(rows, request=page, position_of=lambda ticket: [str(ticket.id)])


def _waiting_position(ticket: StaffTicket) -> list[str]:
    return [ticket.due_at.isoformat() if ticket.due_at else "", str(ticket.id)]


_SELECT_TICKET = Statement(text(f"{_STAFF_TICKETS_SQL} WHERE t.id = :ticket_id"), row=StaffTicket)


def fetch_staff_ticket(session: Session, *, ticket_id: UUID) -> StaffTicket:
    """Fetch a ticket for staff.

    :raises NotFoundError: the ticket does not exist
    """
    return found(_SELECT_TICKET.first(session, ticket_id=ticket_id), texts.TICKET_NOT_FOUND)
