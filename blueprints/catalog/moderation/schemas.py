"""What staff decide about listings with, and what they see of them."""

from marshmallow import fields

from blueprints.catalog.products.schemas import CampusOrCategory
from blueprints.http.fields import (
    Choice,
    MinorAmount,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from blueprints.http.paging import CursorQuery
from marketplace.catalog import states
from marketplace.catalog.moderation import banned_word_matcher, queries, rules, staff_actions

_REVISION_METADATA = {"description": "The one that was read; a stale one is refused."}


class ModerationQuery(CursorQuery):
    """What the queue is narrowed to."""

    status = Choice(
        *queries.QUEUE_STATES,
        load_default=queries.DEFAULT_QUEUE_STATE,
        metadata={"description": "`held` waits for staff, `screening` for the screening."},
    )
    campus = Text(max_length=100, metadata={"description": "Id or slug."})


class ApproveProduct(Schema):
    """A listing may be shown."""

    note = Text(max_length=500, metadata={"description": "For the audit trail."})
    revision = StrictInteger(minimum=1, metadata=_REVISION_METADATA)


class RefuseProduct(Schema):
    """A listing may not be shown, and why."""

    reason = Text(min_length=3, max_length=500, required=True, metadata={"description": "For the vendor."})
    revision = StrictInteger(minimum=1, metadata=_REVISION_METADATA)


class BulkDelete(Schema):
    """Listings that violate the rules."""

    ids = UniqueList(Uuid(), min_length=1, max_length=staff_actions.MAX_BULK_DELETIONS, required=True)
    reason = Text(
        min_length=3,
        max_length=500,
        load_default=staff_actions.BULK_DELETION_REASON,
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
    price_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    tags = fields.List(fields.String(), required=True)
    quantity = StrictInteger(minimum=0, required=True)
    image_urls = fields.List(fields.String(), required=True)
    campus = fields.Nested(CampusOrCategory, required=True)
    category = fields.Nested(CampusOrCategory, required=True)
    vendor = fields.Nested(ModeratedVendor, required=True)
    status = Choice(*sorted(states.PRODUCT.states), required=True)
    review_state = Choice("screening", "held", required=True, allow_none=True)
    status_reason = fields.String(required=True, allow_none=True)
    review_reasons = fields.List(fields.String(), required=True)
    since = Timestamp(required=True, metadata={"description": "Since when its moderation stands as it does."})
    revision = StrictInteger(minimum=1, required=True)
    published_at = Timestamp(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    updated_at = Timestamp(required=True)


class BanTerm(Schema):
    """Words that name what may not be sold."""

    term = SingleLineText(max_length=banned_word_matcher.MAX_TERM_LENGTH, required=True)
    category = Choice(*banned_word_matcher.BANNED_CATEGORIES, required=True)
    exceptions = UniqueList(
        SingleLineText(max_length=banned_word_matcher.MAX_TERM_LENGTH),
        max_length=banned_word_matcher.MAX_EXCEPTIONS,
        load_default=list,
        metadata={"description": "Phrases that hold the term, and in which it is harmless."},
    )
    note = Text(max_length=500, load_default=None, allow_none=True)


class BannedTermView(Schema):
    """A term that is banned, as the screening folds it."""

    id = Uuid(required=True)
    term = fields.String(required=True)
    category = Choice(*banned_word_matcher.BANNED_CATEGORIES, required=True)
    exceptions = fields.List(fields.String(), required=True)
    note = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
