"""Staff on duty, and the assignment of tickets in turn."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.identity.permissions import MANAGE_SUPPORT
from marketplace.identity.queries import list_officers_with_permission
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ValidationError
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.support import severity as severities, texts
from marketplace.support.models import SupportDuty, SupportTicket

MAX_DUTY = timedelta(hours=24)
_LAGOS: Final = ZoneInfo("Africa/Lagos")
# All support staff are notified of tickets of these severities that nobody on duty can take.
_URGENT = (severities.SEV_1, severities.SEV_2)

# The person on duty whose last assignment is the longest ago. Concurrent tickets skip a person who is being assigned.
_TAKE_TURN = Statement(
    text(
        """
        UPDATE support_duties SET last_assigned_at = :now WHERE user_id = (
            SELECT d.user_id FROM support_duties d JOIN profiles p ON p.id = d.user_id
                JOIN admin_roles r ON r.role = p.staff_role
            WHERE d.on_duty_until > :now AND p.role = 'staff' AND p.account_status = 'active'
                AND :permission = ANY(r.permissions) AND p.id IS DISTINCT FROM CAST(:creator_id AS uuid)
            ORDER BY d.last_assigned_at NULLS FIRST, d.user_id LIMIT 1 FOR NO KEY UPDATE OF d SKIP LOCKED)
        RETURNING user_id
        """
    )
)


def assign_next(session: Session, *, ticket: SupportTicket, now: datetime) -> None:
    """Assign a new or locked ticket to the next member of staff on duty.

    If nobody is on duty, the ticket waits in the inbox, and all support staff are notified of an urgent ticket.
    """
    assignee_id: UUID | None = _TAKE_TURN.scalar(
        session, now=now, permission=MANAGE_SUPPORT, creator_id=ticket.creator_id
    )
    ticket.assignee_id = assignee_id
    session.flush()
    if assignee_id is not None:
        notify_staff(session, ticket=ticket, staff_ids=[assignee_id], title=texts.ASSIGNED_TITLE, now=now)
    elif ticket.severity in _URGENT:
        staff_ids = list_officers_with_permission(
            session, permission=MANAGE_SUPPORT, excluded_officer_id=ticket.creator_id
        )
        notify_staff(session, ticket=ticket, staff_ids=staff_ids, title=texts.UNASSIGNED_TITLE, now=now)


def notify_staff(
    session: Session, *, ticket: SupportTicket, staff_ids: list[UUID], title: str, now: datetime
) -> None:
    """Notify members of staff of a ticket that waits for an answer."""
    due = (ticket.due_at or ticket.resolution_due_at).astimezone(_LAGOS)
    body = texts.ASSIGNED_BODY.format(
        severity=ticket.severity,
        number=ticket.number,
        due=f"{due:%d.%m. %H:%M}",
        subject=ticket.subject,
    )
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=staff_id,
                type="support_assigned",
                title=title,
                body=body,
                link=f"/admin/support/{ticket.id}",
                cause=f"ticket:{ticket.id}:assigned:{ticket.message_count}:{staff_id}",
            )
            for staff_id in staff_ids
        ],
        now=now,
    )


def may_handle_tickets(session: Session, *, user_id: UUID) -> bool:
    """Return whether a person is an active member of staff who may manage support."""
    return user_id in list_officers_with_permission(session, permission=MANAGE_SUPPORT)


def set_duty(session: Session, *, user_id: UUID, until: datetime | None, now: datetime) -> datetime | None:
    """Set or end the duty of a member of staff, and return its end.

    :param until: in the future, at most ``MAX_DUTY`` from now; none ends the duty
    :raises ValidationError: the time is out of range
    """
    if until is not None and not now < until <= now + MAX_DUTY:
        raise ValidationError.of("until", texts.DUTY_IN_PAST)
    session.execute(
        insert(SupportDuty)
        .values(user_id=user_id, on_duty_until=until or now)
        .on_conflict_do_update(index_elements=("user_id",), set_={"on_duty_until": until or now})
    )
    return until


def find_duty_end(session: Session, *, user_id: UUID, now: datetime) -> datetime | None:
    """Return the end of a member's duty, or none for a person who is not on duty."""
    return session.scalar(
        select(SupportDuty.on_duty_until).where(
            SupportDuty.user_id == user_id, SupportDuty.on_duty_until > now
        )
    )
