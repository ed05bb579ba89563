"""Schemas of canned replies, saved views and figures of support."""

from functools import partial

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    Choice,
    Created,
    ExpectedRevision,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
)
from blueprints.support.staff_schemas import InboxQuery
from marketplace.kernel import demo_ids
from marketplace.support import severity, tickets
from marketplace.support.tools import figures

_FIRST_DAY, _LAST_DAY = "2026-02-02", "2026-03-01"
_title = partial(SingleLineText, max_length=80, metadata=doc("Title for staff.", "Pickup hours"))
_body = partial(
    Text,
    max_length=tickets.MAX_BODY_LENGTH,
    metadata=doc("Text that staff send.", "The hub is open from 8:00 to 20:00 on weekdays."),
)
_count = partial(StrictInteger, minimum=0, required=True)


class CreateCannedReply(Schema):
    """A new canned reply."""

    title = _title(required=True)
    body = _body(required=True)


class UpdateCannedReply(ExpectedRevision):
    """Changes of a canned reply."""

    title = _title()
    body = _body()


class CannedReply(Revised):
    """A text that staff send often."""

    example_id = demo_ids.CANNED_REPLY

    title = _title(required=True)
    body = _body(required=True)


class ViewFilters(InboxQuery):
    """Filters of the inbox, as in its query."""

    class Meta:
        """A view is not a page."""

        exclude = ("limit", "cursor")


class SaveView(Schema):
    """Filters to keep under a name."""

    name = SingleLineText(max_length=60, required=True, metadata=doc("Name of the view.", "Late parcels"))
    filters = fields.Nested(ViewFilters, required=True, metadata=doc("Filters of the inbox."))


class SavedView(Created):
    """Filters that you saved."""

    example_id = demo_ids.SAVED_VIEW

    name = fields.String(required=True, metadata=doc("Name of the view.", "Late parcels"))
    filters = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata=doc("Parameters for the inbox.", {"status": "waiting", "tag": "hub"}),
    )


class FiguresQuery(Schema):
    """The period in days in Nigeria, both included."""

    from_ = fields.Date(
        data_key="from",
        load_default=None,
        metadata=doc(f"First day; {figures.DEFAULT_DAYS} days up to `to` by default.", _FIRST_DAY),
    )
    to = fields.Date(load_default=None, metadata=doc("Last day; today by default.", _LAST_DAY))


class TicketFiguresView(Schema):
    """Figures of the tickets that were opened in a period. Merged tickets do not count."""

    opened = _count(metadata=doc("Opened tickets.", 40))
    responded = _count(metadata=doc("Tickets with an answer.", 38))
    response_seconds = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Median time to the first answer; null without answers.", 1_260),
    )
    responses_on_time = _count(metadata=doc("First answers by their target time.", 35))
    resolved = _count(metadata=doc("Resolved tickets.", 36))
    resolution_seconds = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Median time to the resolution; null without resolutions.", 20_400),
    )
    resolutions_on_time = _count(metadata=doc("Resolutions by their target time.", 33))
    reopened = _count(metadata=doc("Tickets that their creators reopened.", 2))
    ratings = _count(metadata=doc("Rated tickets.", 20))
    satisfaction = fields.Float(
        required=True, allow_none=True, metadata=doc("Average rating; null without ratings.", 4.35)
    )


class CategoryFigures(TicketFiguresView):
    """Figures of a topic."""

    category = Choice(
        *severity.CATEGORIES, required=True, metadata=doc("Topic of the tickets.", severity.DELIVERY)
    )


class WeekFigures(TicketFiguresView):
    """Figures of a week."""

    week = fields.Date(required=True, metadata=doc("Monday of the week.", _FIRST_DAY))


class SupportFiguresView(Schema):
    """Figures of support in total, by topic and by week."""

    first_day = fields.Date(required=True, metadata=doc("First day.", _FIRST_DAY))
    last_day = fields.Date(required=True, metadata=doc("Last day.", _LAST_DAY))
    overall = fields.Nested(TicketFiguresView, required=True, metadata=doc("All tickets."))
    by_category = fields.List(
        fields.Nested(CategoryFigures), required=True, metadata=doc("Topics with tickets.")
    )
    by_week = fields.List(fields.Nested(WeekFigures), required=True, metadata=doc("Weeks with tickets."))
