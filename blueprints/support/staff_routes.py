"""Routes of tickets for staff: the inbox, and the work on a ticket."""

from datetime import datetime
from typing import Any
from uuid import UUID

from blueprints.http import SUPPORT_STAFF, Context, ContractBlueprint, SharedLimit, expected_revision
from blueprints.support.staff_schemas import (
    AssignTicket,
    Duty,
    InboxQuery,
    MergeTicket,
    NoteOnTicket,
    ReclassifyTicket,
    SetDuty,
    StaffTicketView,
)
from marketplace.kernel.errors import ConflictOfInterestError, StaleRevisionError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.support import duty, queries, staff
from marketplace.support.queries import StaffTicket
from marketplace.support.tickets import TicketClosedError

area = ContractBlueprint("support_inbox", "/api/admin/support", "Tickets, for support staff")

_WRITES = "60/minute"
_ERRORS = (ConflictOfInterestError, IllegalTransitionError)


@area.get(
    "",
    auth=SUPPORT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=InboxQuery,
    reply=StaffTicketView(many=True),
)
def list_inbox(ctx: Context, query: dict[str, Any]) -> Page:
    """List tickets: those that wait for staff by the time when an answer is due, others from the newest."""
    return queries.list_inbox(
        ctx.session, caller=ctx.user, filters=queries.InboxFilter(**query), page=ctx.page
    )


@area.get("/duty", auth=SUPPORT_STAFF, limit=SharedLimit.CALLER_TIER, reply=Duty)
def get_duty(ctx: Context) -> dict[str, datetime | None]:
    """Get the end of your duty."""
    return {"on_duty_until": duty.find_duty_end(ctx.session, user_id=ctx.user.id, now=ctx.now)}


@area.put("/duty", auth=SUPPORT_STAFF, limit=_WRITES, body=SetDuty, reply=Duty)
def set_duty(ctx: Context, body: dict[str, Any]) -> dict[str, datetime | None]:
    """Start or end your duty. New tickets are assigned to staff on duty in turn."""
    until = duty.set_duty(ctx.session, user_id=ctx.user.id, until=body["until"], now=ctx.now)
    return {"on_duty_until": until}


@area.get("/<uuid:ticket_id>", auth=SUPPORT_STAFF, limit=SharedLimit.CALLER_TIER, reply=StaffTicketView)
def get_inbox_ticket(ctx: Context, ticket_id: UUID) -> StaffTicket:
    """Get a ticket with target times, assignee and tags. `GET /api/support/:id/messages` lists its messages."""
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.put(
    "/<uuid:ticket_id>",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=ReclassifyTicket,
    reply=StaffTicketView,
    raises=(ConflictOfInterestError, StaleRevisionError),
)
def reclassify_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> StaffTicket:
    """Change severity, category or tags. A new severity moves the target times."""
    staff.reclassify(
        ctx.session,
        ticket_id=ticket_id,
        changes=staff.TicketChanges(
            severity=body.get("severity"),
            category=body.get("category"),
            tags=body.get("tags"),
            revision=expected_revision(body.get("revision")),
        ),
        act=ctx.act,
    )
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.post(
    "/<uuid:ticket_id>/assign",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=AssignTicket,
    reply=StaffTicketView,
    raises=_ERRORS,
)
def assign_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> StaffTicket:
    """Assign a ticket, or return it to the inbox."""
    staff.assign(ctx.session, ticket_id=ticket_id, assignee_id=body["assignee_id"], act=ctx.act)
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.post(
    "/<uuid:ticket_id>/note",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=NoteOnTicket,
    reply=StaffTicketView,
    status=201,
    raises=(ConflictOfInterestError,),
)
def note_on_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> StaffTicket:
    """Add an internal note. The creator does not see it."""
    staff.add_note(ctx.session, ticket_id=ticket_id, body=body["message"], act=ctx.act)
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.post(
    "/<uuid:ticket_id>/resolve", auth=SUPPORT_STAFF, limit=_WRITES, reply=StaffTicketView, raises=_ERRORS
)
def resolve_ticket(ctx: Context, ticket_id: UUID) -> StaffTicket:
    """Resolve a ticket. A reply of its creator within 7 days reopens it; after that it is closed."""
    staff.resolve(ctx.session, ticket_id=ticket_id, act=ctx.act)
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.post(
    "/<uuid:ticket_id>/close", auth=SUPPORT_STAFF, limit=_WRITES, reply=StaffTicketView, raises=_ERRORS
)
def close_ticket(ctx: Context, ticket_id: UUID) -> StaffTicket:
    """Close a ticket without a further answer. Its creator is notified."""
    staff.close(ctx.session, ticket_id=ticket_id, act=ctx.act)
    return queries.fetch_staff_ticket(ctx.session, ticket_id=ticket_id)


@area.post(
    "/<uuid:ticket_id>/merge",
    auth=SUPPORT_STAFF,
    limit=_WRITES,
    body=MergeTicket,
    reply=StaffTicketView,
    raises=(ConflictOfInterestError, TicketClosedError),
)
def merge_ticket(ctx: Context, ticket_id: UUID, body: dict[str, Any]) -> StaffTicket:
    """Close a duplicate, and continue in another ticket of the same person, which is the reply."""
    target = staff.merge(ctx.session, ticket_id=ticket_id, into_id=body["into_id"], act=ctx.act)
    return queries.fetch_staff_ticket(ctx.session, ticket_id=target.id)
