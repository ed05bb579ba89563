"""What staff ask of all orders, and what they are shown of them."""

from marshmallow import fields

from blueprints.http.fields import (
    Choice,
    FlagParameter,
    Minor,
    Moment,
    PeriodBound,
    Schema,
    Text,
    Uuid,
    WholeParameter,
)
from blueprints.http.paging import CursorQuery, OffsetQuery
from blueprints.http.periods import PeriodQuery
from blueprints.http.tabular import FORMATS
from blueprints.orders.schemas import Person, VendorSummary
from marketplace.orders import admin_table, states

_STATUSES = sorted(states.ORDER.states)
_ESCROW_STATUSES = sorted(states.ESCROW.states)
_MOST_HOURS = 10 * 365 * 24
_MOST_MINOR = 10**15


class AuditQuery(PeriodQuery, OffsetQuery):
    """Which orders the table shows, sorted by what; ``to`` is exclusive, amounts are kobo."""

    sort = Choice(*admin_table.SORTS, load_default="createdAt")
    status = Choice(*_STATUSES)
    escrow_status = Choice(*_ESCROW_STATUSES)
    campus = Text(most=80, metadata={"description": "A campus by its id or slug."})
    vendor = Uuid(metadata={"description": "The store's id."})
    buyer = Uuid()
    min_total = WholeParameter(low=0, high=_MOST_MINOR)
    max_total = WholeParameter(low=0, high=_MOST_MINOR)
    from_ = PeriodBound(data_key="from", metadata={"description": "Placed from then on."})
    to = PeriodBound(metadata={"description": "Placed before then."})
    older_than_hours = WholeParameter(low=1, high=_MOST_HOURS)
    stuck = FlagParameter(
        metadata={
            "description": "Paid and not accepted for 24 hours, shipped and not delivered for 14 days, with a"
            " payment that is held back or a refund that failed; false for all others."
        }
    )
    format = Choice(*FORMATS)


class OrderCampus(Schema):
    """The campus of an order."""

    id = Uuid(required=True)
    name = fields.String(required=True)
    slug = fields.String(required=True)


class AuditRow(Schema):
    """An order in the table. ``escrowMinor`` is what the books hold for it now; ages are whole hours."""

    id = Uuid(required=True)
    number = fields.String(required=True)
    status = Choice(*_STATUSES, required=True)
    escrow_status = Choice(*_ESCROW_STATUSES, required=True)
    buyer = fields.Nested(Person, required=True)
    vendor = fields.Nested(VendorSummary, required=True)
    campus = fields.Nested(OrderCampus, required=True)
    total_amount = Minor(required=True, data_key="total_amount")
    escrow_minor = fields.Integer(required=True, strict=True)
    currency = fields.String(required=True)
    payment_status = fields.String(required=True, allow_none=True)
    created_at = Moment(required=True)
    paid_at = Moment(required=True, allow_none=True)
    age_hours = fields.Integer(required=True, strict=True)
    status_age_hours = fields.Integer(required=True, strict=True)
    stuck = fields.List(Choice(*admin_table.REASONS), required=True)


class CampusOrderQuery(CursorQuery):
    """Which of the paid orders of a campus, or of all, are listed."""

    campus = Text(most=80, load_default=None, metadata={"description": "A campus by its id or slug."})
    status = Choice(*_STATUSES, load_default=None)
    delivery_method = Choice("delivery", "pickup", load_default=None)


class PickupHub(Schema):
    """Where an order is picked up."""

    id = Uuid(required=True)
    name = fields.String(required=True)


class CampusOrder(Schema):
    """A paid order, as those who hand it over see it."""

    id = Uuid(required=True)
    number = fields.String(required=True)
    status = Choice(*_STATUSES, required=True)
    delivery_method = Choice("delivery", "pickup", required=True)
    delivery_status = Choice(*sorted(states.DELIVERY_STATUSES), required=True)
    hub = fields.Nested(PickupHub, required=True, allow_none=True)
    buyer = fields.Nested(Person, required=True)
    vendor = fields.Nested(VendorSummary, required=True)
    campus = fields.Nested(OrderCampus, required=True)
    paid_at = Moment(required=True)
    accepted_at = Moment(required=True, allow_none=True)
    shipped_at = Moment(required=True, allow_none=True)
    delivered_at = Moment(required=True, allow_none=True)
