"""Schemas of tickets for staff."""

from functools import partial

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    Choice,
    CursorQuery,
    ExpectedRevision,
    FullMatch,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from marketplace.kernel import demo_ids
from marketplace.support import queries, severity as severities, staff, tickets

_severity = partial(
    Choice, *severities.SEVERITIES, metadata=doc("Severity, from the most urgent `SEV-1`.", severities.SEV_2)
)


class InboxQuery(CursorQuery):
    """Filters of the inbox."""

    status = Choice(
        *queries.STATUS_FILTERS,
        load_default=queries.WAITING,
        metadata=doc("`waiting` lists tickets that wait for staff, the most overdue first.", queries.WAITING),
    )
    assignee = fields.String(
        validate=FullMatch(
            "me|none|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            error="Must be `me`, `none` or the id of a person.",
        ),
        metadata=doc("`me`, `none`, or the id of a member of staff.", queries.MINE),
    )
    severity = _severity()
    category = Choice(
        *severities.CATEGORIES, metadata=doc("Only tickets with this topic.", severities.DELIVERY)
    )
    tag = SingleLineText(max_length=staff.MAX_TAG_LENGTH, metadata=doc("Only tickets with this tag.", "hub"))
    creator_id = Uuid(metadata=doc("Only tickets of this person.", demo_ids.BUYER))


class StaffTicketView(Revised):
    """A ticket for staff."""

    example_id = demo_ids.TICKET

    number = fields.String(required=True, metadata=doc("Number for people.", "S-100001"))
    subject = fields.String(required=True, metadata=doc("A few words.", "My order has not arrived"))
    category = Choice(
        *severities.CATEGORIES, required=True, metadata=doc("Topic of the ticket.", severities.DELIVERY)
    )
    severity = _severity(required=True)
    status = Choice(
        *queries.STATUS_FILTERS[1:],
        required=True,
        metadata=doc("`open` and `pending_staff` wait for staff.", "open"),
    )
    tags = fields.List(fields.String(), required=True, metadata=doc("Tags of staff.", ["hub"]))
    creator_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Person who opened the ticket; null for a contact without a profile.", demo_ids.BUYER),
    )
    creator_name = fields.String(
        required=True, allow_none=True, metadata=doc("Name of the creator; null if unknown.", "Amara")
    )
    assignee_id = Uuid(
        required=True, allow_none=True, metadata=doc("Member of staff; null without one.", None)
    )
    assignee_name = fields.String(
        required=True, allow_none=True, metadata=doc("Name of the assignee; null without one.", None)
    )
    order_id = Uuid(required=True, allow_none=True, metadata=doc("Order; null without one.", demo_ids.ORDER))
    order_number = fields.String(
        required=True, allow_none=True, metadata=doc("Number of the order; null without one.", "CM-100001")
    )
    message_count = StrictInteger(minimum=1, required=True, metadata=doc("Number of messages and notes.", 1))
    due_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time by which staff should answer; null while staff need not act.", PLACED_AT),
    )
    response_due_at = Timestamp(required=True, metadata=doc("Target time of the first answer.", PLACED_AT))
    resolution_due_at = Timestamp(required=True, metadata=doc("Target time of the resolution.", PLACED_AT))
    first_responded_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the first answer; null before.", None)
    )
    resolved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the resolution; null before.", None)
    )
    closed_at = Timestamp(required=True, allow_none=True, metadata=doc("Time of closing; null before.", None))
    reopenings = StrictInteger(
        minimum=0, required=True, metadata=doc("How often the creator reopened the ticket.", 0)
    )
    merged_into_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Ticket that continues this one; null unless merged.", None),
    )
    rating = StrictInteger(
        minimum=1,
        maximum=5,
        required=True,
        allow_none=True,
        metadata=doc("Rating of the creator; null before.", None),
    )
    rating_comment = fields.String(
        required=True, allow_none=True, metadata=doc("Comment on the rating; null without one.", None)
    )


class AssignTicket(Schema):
    """The new assignee."""

    assignee_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc(
            "Member of staff who may manage support; null returns the ticket to the inbox.",
            demo_ids.SUPPORT_OFFICER,
        ),
    )


class NoteOnTicket(Schema):
    """An internal note."""

    message = Text(
        max_length=tickets.MAX_BODY_LENGTH,
        required=True,
        metadata=doc("Text for staff.", "The hub found the parcel in another shelf."),
    )


class ReclassifyTicket(ExpectedRevision):
    """Changes of a ticket's classification."""

    severity = _severity()
    category = Choice(*severities.CATEGORIES, metadata=doc("Topic of the ticket.", severities.DELIVERY))
    tags = UniqueList(
        SingleLineText(max_length=staff.MAX_TAG_LENGTH),
        max_length=staff.MAX_TAGS,
        metadata=doc("Tags of staff. They replace the earlier tags.", ["hub"]),
    )


class MergeTicket(Schema):
    """The ticket that continues a duplicate."""

    into_id = Uuid(
        required=True, metadata=doc("Another open ticket of the same person.", demo_ids.SECOND_TICKET)
    )


class SetDuty(Schema):
    """The end of your duty."""

    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of your duty, at most 24 hours from now; null ends the duty.", None),
    )


class Duty(Schema):
    """Your duty."""

    on_duty_until = Timestamp(
        required=True, allow_none=True, metadata=doc("End of your duty; null while off duty.", None)
    )
