"""What vendors owe us, as finance reads it."""

from marshmallow import fields

from blueprints.http.envelope import OffsetMetaSchema
from blueprints.http.fields import Choice, Minor, Moment, Schema, Uuid
from blueprints.http.paging import OffsetQuery
from marketplace.payouts import receivables


class ReceivableQuery(OffsetQuery):
    """Which vendors are listed."""

    sort = Choice(*receivables.SORTS, load_default="owedMinor")
    vendor_id = Uuid(load_default=None)


class Receivable(Schema):
    """What a vendor owes us: what was claimed in all, less what was collected from their payouts."""

    vendor_id = Uuid(required=True)
    vendor_name = fields.String(required=True)
    owed_minor = Minor(low=1, required=True)
    payable_minor = Minor(
        required=True, metadata={"description": "What we owe them: what they owe is taken out of it first."}
    )
    claimed_minor = Minor(required=True)
    collected_minor = Minor(required=True)
    last_claimed_at = Moment(required=True)


class ReceivablesMeta(OffsetMetaSchema):
    """The page, and what is owed in all by those who are listed."""

    owed_minor = Minor(required=True, data_key="owedMinor")
