"""What staff decide about listings with, and what they see of them."""

from marshmallow import fields

from blueprints.catalog.products.schemas import CampusOrCategory, ManagedListing
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
    ExpectedRevision,
    MinorAmount,
    Schema,
    SingleLineText,
    StoreName,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from marketplace.catalog import states
from marketplace.catalog.moderation import banned_word_matcher, queries, rules, staff_actions


class ModerationQuery(CursorQuery):
    """What the queue is narrowed to."""

    status = Choice(
        *queries.QUEUE_STATES,
        load_default=queries.DEFAULT_QUEUE_STATE,
        metadata={"description": "`held` waits for staff, `screening` for the screening."},
    )
    campus = Text(max_length=100, metadata={"description": "Id or slug."})


class ApproveProduct(ExpectedRevision):
    """A listing may be shown."""

    note = Text(max_length=500, metadata={"description": "For the audit trail."})


class RefuseProduct(ExpectedRevision):
    """A listing may not be shown, and why."""

    reason = Text(min_length=3, max_length=500, required=True, metadata={"description": "For the vendor."})


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


class ModeratedVendor(StoreName):
    """Whose listing it is."""

    verified = fields.Boolean(required=True)


class ModeratedProduct(ManagedListing):
    """A listing, as those see it who decide about it."""

    title = fields.String(required=True)
    description = fields.String(required=True)
    price_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    tags = fields.List(fields.String(), required=True)
    image_urls = fields.List(fields.String(), required=True)
    campus = fields.Nested(CampusOrCategory, required=True)
    category = fields.Nested(CampusOrCategory, required=True)
    vendor = fields.Nested(ModeratedVendor, required=True)
    status = Choice(*sorted(states.PRODUCT.states), required=True)
    since = Timestamp(required=True, metadata={"description": "Since when its moderation stands as it does."})


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


class BannedTermView(Created):
    """A term that is banned, as the screening folds it."""

    term = fields.String(required=True)
    category = Choice(*banned_word_matcher.BANNED_CATEGORIES, required=True)
    exceptions = fields.List(fields.String(), required=True)
    note = fields.String(required=True, allow_none=True)
