"""Schemas of campuses, hubs, public holidays and shifts of representatives."""

from datetime import date
from functools import partial
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate, validates_schema

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    Choice,
    ClearableFields,
    ClearList,
    CursorQuery,
    Degrees,
    DegreesParameter,
    ExpectedRevision,
    FullMatch,
    Identified,
    NamedResource,
    OpeningHours,
    OpeningHoursView,
    Revised,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.kernel import demo_ids
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.opening_hours import (
    CLOSING_TIME_PATTERN,
    DAYS,
    TIME_PATTERN,
    InvalidHoursError,
    WeeklyHours,
)
from marketplace.platform.campuses.campus_list import SLUG_PATTERN

_HOLIDAY = "2027-10-01"


def _ensure_not_uuid(slug: str) -> None:
    # A path names a campus by slug or id, so a slug must not look like an id.
    if parse_uuid(slug) is not None:
        raise ValidationError("Must not be a UUID.")


def _ensure_near(day: date) -> None:
    if not 2020 <= day.year <= 2100:
        raise ValidationError("Must be between 2020 and 2100.")


class CampusView(NamedResource):
    """A campus."""


class StaffCampusView(Revised):
    """A campus for staff."""

    example_id = demo_ids.CAMPUS

    name = fields.String(required=True, metadata=doc("Name for people.", "North Campus"))
    slug = fields.String(required=True, metadata=doc("Name for URLs, in lower case with hyphens.", "north"))
    active = fields.Boolean(required=True, metadata=doc("False for a hidden campus without new users.", True))
    domains = fields.List(
        fields.String(),
        required=True,
        metadata=doc("E-mail domains. Subdomains count too.", ["north.example.edu"]),
    )


_campus_name = partial(
    SingleLineText, min_length=2, max_length=100, metadata=doc("Name for people.", "East Campus")
)


class AddCampus(Schema):
    """A new campus."""

    name = _campus_name(required=True)
    slug = fields.String(
        required=True,
        metadata=doc("Permanent name for URLs, in lower case with hyphens.", "east"),
        validate=[
            FullMatch(SLUG_PATTERN, error="Must be lower-case words joined by hyphens."),
            validate.Length(min=2, max=60),
            _ensure_not_uuid,
        ],
    )


class ChangeCampus(ExpectedRevision):
    """Changes to a campus. Omitted fields stay unchanged."""

    name = _campus_name()
    active = StrictBoolean(metadata=doc("False hides the campus and takes no new users.", True))


class AddDomain(Schema):
    """A new e-mail domain of a campus."""

    domain = SingleLineText(
        max_length=253, required=True, metadata=doc("Domain of the university.", "students.example.edu")
    )


class RemovedDomain(Schema):
    """A removed e-mail domain."""

    domain = fields.String(
        required=True, metadata=doc("The domain in lower-case ASCII.", "students.example.edu")
    )
    deleted = fields.Boolean(required=True, metadata=doc("Always true.", True))


class HubQuery(CursorQuery):
    """The place of the client, which sorts hubs by distance."""

    lat = DegreesParameter(
        max_degrees=90, metadata=doc("Latitude in degrees, north positive. Send `lng` too.", 6.5155)
    )
    lng = DegreesParameter(
        max_degrees=180, metadata=doc("Longitude in degrees, east positive. Send `lat` too.", 3.3872)
    )

    @validates_schema
    def check_place(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that latitude and longitude come together."""
        missing = {"lat", "lng"} - data.keys()
        if len(missing) == 1:
            raise ValidationError("Send lat and lng together.", missing.pop())


class _HubStatus(Identified):
    example_id = demo_ids.HUB

    name = fields.String(required=True, metadata=doc("Name of the hub.", "Library Hub"))
    address = fields.String(
        required=True, metadata=doc("Place of the hub.", "Ground floor of the University Library")
    )
    latitude = fields.Float(required=True, allow_none=True)
    longitude = fields.Float(required=True, allow_none=True)
    opening_hours = OpeningHoursView(
        required=True,
        allow_none=True,
        metadata=doc("Opening hours by day, in Nigerian time; null while unknown."),
    )
    open_now = fields.Boolean(
        required=True,
        allow_none=True,
        metadata=doc("Whether the hub is open now; null while the hours are unknown.", True),
    )
    opens_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Next opening of a closed hub; null for an open hub or after 35 days.", None),
    )
    closes_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the current opening; null for a closed hub.", "2026-03-02T19:00:00Z"),
    )
    holiday = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Public holiday that closes the hub today; null for a normal day.", None),
    )


class HubView(_HubStatus):
    """A pickup hub of a campus."""

    distance_meters = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Distance from `lat` and `lng` in metres; null without a place.", 180),
    )


class StaffHub(_HubStatus):
    """A pickup hub for staff."""

    campus_id = Uuid(required=True, metadata=doc("Id of the campus.", demo_ids.CAMPUS))
    active = fields.Boolean(
        required=True, metadata=doc("False for a hub that is closed to new orders.", True)
    )
    revision = StrictInteger(minimum=1, required=True)
    updated_at = Timestamp(required=True, allow_none=True)


class _HubFields(Schema):
    name = SingleLineText(min_length=2, max_length=80, metadata=doc("Name of the hub.", "Chapel Hub"))
    address = SingleLineText(
        min_length=2, max_length=200, metadata=doc("Place of the hub.", "Chapel Road, beside the post office")
    )
    opening_hours = OpeningHours(
        metadata=doc("Opening hours, in Nigerian time. An empty list means always closed.")
    )
    latitude = Degrees(max_degrees=90)
    longitude = Degrees(max_degrees=180)


class AddHub(_HubFields):
    """A new hub."""

    name = SingleLineText(
        min_length=2, max_length=80, required=True, metadata=doc("Name of the hub.", "Chapel Hub")
    )
    address = SingleLineText(
        min_length=2,
        max_length=200,
        required=True,
        metadata=doc("Place of the hub.", "Chapel Road, beside the post office"),
    )
    opening_hours = OpeningHours(
        required=True,
        metadata=doc("Opening hours, in Nigerian time. An empty list means always closed."),
    )

    @validates_schema
    def check_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that latitude and longitude come together."""
        missing = {"latitude", "longitude"} - data.keys()
        if len(missing) == 1:
            raise ValidationError("Send latitude and longitude together.", missing.pop())


class ChangeHub(_HubFields, ClearableFields, ExpectedRevision):
    """Changes to a hub. Omitted fields stay unchanged."""

    active = StrictBoolean(
        metadata=doc("False closes the hub to new orders. Open orders keep the hub.", True)
    )
    clear = ClearList("latitude", "longitude", "openingHours")


class OperationsQuery(CursorQuery):
    """Filter of the operational view of hubs."""

    campus = Text(max_length=80, load_default=None, metadata=doc("The campus's id or slug.", "north"))


class ShiftPerson(Identified):
    """A campus representative."""

    example_id = demo_ids.CAMPUS_REP

    name = fields.String(required=True, allow_none=True, metadata=doc("Full name.", "Sade Martins"))


class _ShiftPeriod(Schema):
    day = Choice(*DAYS, required=True, metadata=doc("Day of the week.", "sunday"))
    starts = fields.String(
        required=True,
        validate=FullMatch(TIME_PATTERN, error="Must be a time from 00:00 to 23:59."),
        metadata=doc("Start, in Nigerian time.", "10:00"),
    )
    ends = fields.String(
        required=True,
        validate=FullMatch(CLOSING_TIME_PATTERN, error="Must be a time from 00:00 to 24:00."),
        metadata=doc("End on the same day.", "14:00"),
    )


class ShiftView(_ShiftPeriod, Identified):
    """A weekly shift of a representative at a hub."""

    example_id = demo_ids.REP_SHIFT

    hub_id = Uuid(required=True, metadata=doc("Id of the hub.", demo_ids.HUB))
    rep = fields.Nested(ShiftPerson, required=True, metadata=doc("The representative."))
    on_duty = fields.Boolean(required=True, metadata=doc("Whether the shift is running now.", False))


class AddShift(_ShiftPeriod):
    """A new weekly shift."""

    hub_id = Uuid(required=True, metadata=doc("Hub of the representative's campus.", demo_ids.HUB))
    user_id = Uuid(required=True, metadata=doc("Id of the representative.", demo_ids.CAMPUS_REP))

    @post_load
    def build_period(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Combine day and times into a period."""
        day, starts, ends = data.pop("day"), data.pop("starts"), data.pop("ends")
        try:
            [period] = WeeklyHours.parse([{"day": day, "opens": starts, "closes": ends}]).intervals
        except InvalidHoursError as error:
            raise ValidationError("Must be after `starts`, on the same day.", "ends") from error
        return data | {"period": period}


class OperatedHubView(StaffHub):
    """A hub with pickups and representatives, for staff of a campus."""

    waiting_pickups = StrictInteger(
        attribute="pickups.waiting_pickups",
        minimum=0,
        required=True,
        metadata=doc("Paid orders that buyers have yet to pick up.", 3),
    )
    awaiting_handover = StrictInteger(
        attribute="pickups.awaiting_handover",
        minimum=0,
        required=True,
        metadata=doc("Orders that were shipped to the hub.", 2),
    )
    overdue_handovers = StrictInteger(
        attribute="pickups.overdue_handovers",
        minimum=0,
        required=True,
        metadata=doc("Orders that were shipped to the hub more than 48 hours ago.", 1),
    )
    reps_on_duty = StrictInteger(
        minimum=0, required=True, metadata=doc("Representatives whose shift is running.", 1)
    )
    shifts = fields.List(
        fields.Nested(ShiftView), required=True, metadata=doc("Weekly shifts of representatives by time.")
    )


class HolidayQuery(CursorQuery):
    """Filter of public holidays."""

    from_ = fields.Date(
        data_key="from",
        validate=_ensure_near,
        metadata=doc("First date; today without a date.", "2026-01-01"),
    )


class HolidayView(Revised):
    """A public holiday, which closes hubs all day."""

    example_id = demo_ids.PUBLIC_HOLIDAY

    date = fields.Date(required=True, metadata=doc("Date in Nigeria.", _HOLIDAY))
    name = fields.String(required=True, metadata=doc("Name of the holiday.", "Independence Day"))
    campus_id = Uuid(
        required=True, allow_none=True, metadata=doc("Closed campus; null for all campuses.", None)
    )
    active = fields.Boolean(required=True, metadata=doc("False for a cancelled holiday.", True))


_holiday_date = partial(fields.Date, validate=_ensure_near, metadata=doc("Date in Nigeria.", "2035-03-05"))
_holiday_name = partial(
    SingleLineText, min_length=2, max_length=80, metadata=doc("Name of the holiday.", "Founders' Day")
)


class AddHoliday(Schema):
    """A new public holiday."""

    date = _holiday_date(required=True)
    name = _holiday_name(required=True)
    campus_id = Uuid(
        metadata=doc("The only closed campus. Without a campus, all are closed.", demo_ids.CAMPUS)
    )


class ChangeHoliday(ExpectedRevision):
    """Changes to a public holiday. Omitted fields stay unchanged."""

    date = _holiday_date()
    name = _holiday_name()
    active = StrictBoolean(metadata=doc("False cancels the holiday.", True))
