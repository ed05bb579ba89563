"""What staff decide about listings with, and what they see of them."""

from marshmallow import fields

from blueprints.catalog.products.schemas import NamedPlace
from blueprints.http.fields import Choice, Distinct, Line, Minor, Moment, Schema, Text, Uuid, Whole
from blueprints.http.paging import CursorQuery
from marketplace.catalog import states
from marketplace.catalog.moderation import banned_words, queries, rules, staff_actions

_REVISION = {"description": "The one that was read; a stale one is refused."}


class ModerationQuery(CursorQuery):
    """What the queue is narrowed to."""

    status = Choice(
        *queries.STATES,
        load_default=queries.DEFAULT_STATE,
        metadata={"description": "`held` waits for staff, `screening` for the screening."},
    )
    campus = Text(most=100, metadata={"description": "Id or slug."})


class Approval(Schema):
    """A listing may be shown."""

    note = Text(most=500, metadata={"description": "For the audit trail."})
    revision = Whole(low=1, metadata=_REVISION)


class Refusal(Schema):
    """A listing may not be shown, and why."""

    reason = Text(least=3, most=500, required=True, metadata={"description": "For the vendor."})
    revision = Whole(low=1, metadata=_REVISION)


class BulkDelete(Schema):
    """Listings that violate the rules."""

    ids = Distinct(Uuid(), least=1, most=staff_actions.MAX_BULK, required=True)
    reason = Text(
        least=3,
        most=500,
        load_default=staff_actions.BULK_REASON,
        metadata={"description": "For the vendors and the audit trail."},
    )


class BulkDeleted(Schema):
    """What became of each id."""

    deleted = fields.List(Uuid(), required=True)
    already_deleted = fields.List(Uuid(), required=True)
    missing = fields.List(Uuid(), required=True)


class ModeratedVendor(Schema):
    """Whose listing it is."""

    id = Uuid(required=True)
    display_name = fields.String(required=True)
    slug = fields.String(required=True)
    verified = fields.Boolean(required=True)


class ModeratedProduct(Schema):
    """A listing, as those see it who decide about it."""

    id = Uuid(required=True)
    title = fields.String(required=True)
    description = fields.String(required=True)
    price_minor = Minor(required=True)
    currency = fields.String(required=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    tags = fields.List(fields.String(), required=True)
    quantity = Whole(low=0, required=True)
    image_urls = fields.List(fields.String(), required=True)
    campus = fields.Nested(NamedPlace, required=True)
    category = fields.Nested(NamedPlace, required=True)
    vendor = fields.Nested(ModeratedVendor, required=True)
    status = Choice(*sorted(states.PRODUCT.states), required=True)
    review_state = Choice("screening", "held", required=True, allow_none=True)
    status_reason = fields.String(required=True, allow_none=True)
    review_reasons = fields.List(fields.String(), required=True)
    since = Moment(required=True, metadata={"description": "Since when its moderation stands as it does."})
    revision = Whole(low=1, required=True)
    published_at = Moment(required=True, allow_none=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class BanTerm(Schema):
    """Words that name what may not be sold."""

    term = Line(most=banned_words.MAX_TERM_LENGTH, required=True)
    category = Choice(*banned_words.CATEGORIES, required=True)
    exceptions = Distinct(
        Line(most=banned_words.MAX_TERM_LENGTH),
        most=banned_words.MAX_EXCEPTIONS,
        load_default=list,
        metadata={"description": "Phrases that hold the term, and in which it is harmless."},
    )
    note = Text(most=500, load_default=None, allow_none=True)


class Term(Schema):
    """A term that is banned, as the screening folds it."""

    id = Uuid(required=True)
    term = fields.String(required=True)
    category = Choice(*banned_words.CATEGORIES, required=True)
    exceptions = fields.List(fields.String(), required=True)
    note = fields.String(required=True, allow_none=True)
    created_at = Moment(required=True)
