"""Tickets for staff: assign, note, reclassify, resolve, close and merge."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.batches import run_in_batches
from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError, ValidationError, found
from marketplace.support import duty, severity as severities, states, texts
from marketplace.support.models import SupportTicket, SupportTicketMessage
from marketplace.support.tickets import (
    REOPENING_PERIOD,
    NewMessage,
    TicketClosedError,
    append_message,
    change_status,
    find_response_due_at,
    notify_creator,
)

MAX_TAGS, MAX_TAG_LENGTH = 10, 40
_MERGEABLE = (states.OPEN, states.PENDING_STAFF, states.PENDING_USER)


@dataclass(frozen=True)
class TicketChanges:
    """Changes of a ticket's classification. None keeps a value."""

    severity: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    revision: int | None = None


def lock_ticket(session: Session, *, ticket_id: UUID, act: Act) -> SupportTicket:
    """Lock a ticket for a member of staff.

    :raises NotFoundError: the ticket does not exist
    :raises ConflictOfInterestError: the member of staff opened the ticket
    """
    ticket = found(
        session.scalar(
            select(SupportTicket).where(SupportTicket.id == ticket_id).with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        texts.TICKET_NOT_FOUND,
    )
    if ticket.creator_id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_TICKET)
    return ticket


def assign(session: Session, *, ticket_id: UUID, assignee_id: UUID | None, act: Act) -> SupportTicket:
    """Assign a ticket to a member of staff, or return the ticket to the inbox.

    :raises NotFoundError: the ticket does not exist
    :raises ValidationError: the person may not manage support, or opened the ticket
    :raises IllegalTransitionError: the ticket is resolved or closed
    """
    ticket = lock_ticket(session, ticket_id=ticket_id, act=act)
    status = states.TICKET.target(ticket.status, states.ASSIGN)
    if assignee_id is not None and (
        assignee_id == ticket.creator_id or not duty.may_handle_tickets(session, user_id=assignee_id)
    ):
        raise ValidationError.of("assigneeId", texts.NOT_SUPPORT_STAFF)
    before = ticket.assignee_id
    ticket.assignee_id = assignee_id
    change_status(ticket, status if assignee_id else ticket.status, act.now)
    _record(session, ticket, act, "assign", {"assigneeId": str(before) if before else None})
    if assignee_id not in (None, before, act.person_id):
        duty.notify_staff(
            session, ticket=ticket, staff_ids=[assignee_id], title=texts.ASSIGNED_TITLE, now=act.now
        )
    return ticket


def add_note(session: Session, *, ticket_id: UUID, body: str, act: Act) -> SupportTicketMessage:
    """Add an internal note, which the creator does not see.

    :raises NotFoundError: the ticket does not exist
    """
    ticket = lock_ticket(session, ticket_id=ticket_id, act=act)
    change_status(ticket, ticket.status, act.now)
    return append_message(
        session,
        ticket=ticket,
        author="staff",
        author_id=act.person_id,
        message=NewMessage(body, is_internal=True),
        now=act.now,
    )


def reclassify(session: Session, *, ticket_id: UUID, changes: TicketChanges, act: Act) -> SupportTicket:
    """Change severity, category and tags of a ticket. A new severity moves the target times.

    :raises NotFoundError: the ticket does not exist
    :raises StaleRevisionError: the ticket changed meanwhile
    """
    ticket = lock_ticket(session, ticket_id=ticket_id, act=act)
    StaleRevisionError.check(ticket.revision, changes.revision)
    before = {"severity": ticket.severity, "category": ticket.category, "tags": ticket.tags}
    if changes.severity is not None and changes.severity != ticket.severity:
        _change_severity(session, ticket, changes.severity)
    if changes.category is not None:
        ticket.category = changes.category
    if changes.tags is not None:
        ticket.tags = sorted(set(changes.tags))
    change_status(ticket, ticket.status, act.now)
    _record(session, ticket, act, "reclassify", before)
    return ticket


def _change_severity(session: Session, ticket: SupportTicket, severity: str) -> None:
    ticket.severity = severity
    response_due_at = find_response_due_at(
        session, severity=severity, creator_id=ticket.creator_id, now=ticket.created_at
    )
    if ticket.first_responded_at is None:
        ticket.response_due_at = response_due_at
        if ticket.due_at is not None:
            ticket.due_at = response_due_at
    ticket.resolution_due_at = severities.resolution_due_at(severity, since=ticket.created_at)


def resolve(session: Session, *, ticket_id: UUID, act: Act) -> SupportTicket:
    """Resolve a ticket. The creator may reopen the ticket within ``REOPENING_PERIOD``, and may rate the answer.

    :raises NotFoundError: the ticket does not exist
    :raises IllegalTransitionError: the ticket is resolved or closed
    """
    ticket = lock_ticket(session, ticket_id=ticket_id, act=act)
    before = {"status": ticket.status}
    _end(ticket, states.RESOLVE, act.now)
    _record(session, ticket, act, "resolve", before)
    notify_creator(
        session,
        ticket=ticket,
        kind="support_resolved",
        title=texts.RESOLVED_TITLE,
        body=texts.RESOLVED_BODY,
        cause=f"resolved:{ticket.reopenings}",
        now=act.now,
    )
    return ticket


def close(session: Session, *, ticket_id: UUID, act: Act) -> SupportTicket:
    """Close a ticket without a further answer, such as spam.

    :raises NotFoundError: the ticket does not exist
    :raises IllegalTransitionError: the ticket is closed
    """
    ticket = lock_ticket(session, ticket_id=ticket_id, act=act)
    before = {"status": ticket.status}
    was_open = ticket.status != states.RESOLVED
    _end(ticket, states.CLOSE, act.now)
    _record(session, ticket, act, "close", before)
    if was_open:
        notify_creator(
            session,
            ticket=ticket,
            kind="support_resolved",
            title=texts.CLOSED_TITLE,
            body=texts.CLOSED_BODY,
            cause="closed",
            now=act.now,
        )
    return ticket


def merge(session: Session, *, ticket_id: UUID, into_id: UUID, act: Act) -> SupportTicket:
    """Close a duplicate ticket, and point its creator to another ticket of the same creator.

    :return: the remaining ticket
    :raises NotFoundError: the ticket does not exist
    :raises ValidationError: the other ticket is the same ticket, belongs to another person or is closed
    :raises TicketClosedError: the ticket is closed or resolved
    """
    if ticket_id == into_id:
        raise ValidationError.of("intoId", texts.SAME_TICKET)
    # Rows are locked in the order of ids, so two merges cannot deadlock.
    locked = {
        ticket.id: ticket
        for ticket in session.scalars(
            select(SupportTicket)
            .where(SupportTicket.id.in_((ticket_id, into_id)))
            .order_by(SupportTicket.id)
            .with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        )
    }
    duplicate, target = found(locked.get(ticket_id), texts.TICKET_NOT_FOUND), locked.get(into_id)
    same_person = target is not None and (duplicate.creator_id, duplicate.contact_id) == (
        target.creator_id,
        target.contact_id,
    )
    if target is None or not same_person or target.status not in _MERGEABLE:
        raise ValidationError.of("intoId", texts.OTHER_CREATOR)
    if duplicate.creator_id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_TICKET)
    if duplicate.status not in _MERGEABLE:
        raise TicketClosedError(texts.TICKET_CLOSED)
    before = {"status": duplicate.status}
    for ticket, text in (
        (duplicate, texts.MERGED_INTO.format(number=target.number)),
        (target, texts.MERGED_SUBJECT.format(number=duplicate.number)),
    ):
        append_message(
            session,
            ticket=ticket,
            author="system",
            author_id=None,
            message=NewMessage(text),
            now=act.now,
        )
    duplicate.merged_into_id = target.id
    _end(duplicate, states.CLOSE, act.now)
    change_status(target, target.status, act.now)
    _record(session, duplicate, act, "merge", before)
    return target


def _end(ticket: SupportTicket, trigger: str, now: datetime) -> None:
    change_status(ticket, states.TICKET.target(ticket.status, trigger), now)
    ticket.due_at = None
    if trigger == states.RESOLVE:
        ticket.resolved_at = now
    else:
        ticket.closed_at = now


def _record(session: Session, ticket: SupportTicket, act: Act, action: str, before: dict[str, Any]) -> None:
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action=f"ticket.{action}",
        target_type="ticket",
        target_id=str(ticket.id),
        before=before,
        after={
            "status": ticket.status,
            "assigneeId": str(ticket.assignee_id) if ticket.assignee_id else None,
            "severity": ticket.severity,
            "category": ticket.category,
            "tags": ticket.tags,
            "mergedIntoId": str(ticket.merged_into_id) if ticket.merged_into_id else None,
        },
    )


def close_resolved_tickets(database: Database, *, now: datetime) -> int:
    """Close tickets that were resolved ``REOPENING_PERIOD`` ago.

    :return: the number of closed tickets
    """
    return run_in_batches(database, _close_batch, now=now)


def _close_batch(session: Session, *, now: datetime, limit: int) -> int:
    tickets = session.scalars(
        select(SupportTicket)
        .where(SupportTicket.status == states.RESOLVED, SupportTicket.resolved_at <= now - REOPENING_PERIOD)
        .order_by(SupportTicket.resolved_at)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    ).all()
    for ticket in tickets:
        _end(ticket, states.CLOSE, now)
    session.flush()
    return len(tickets)
