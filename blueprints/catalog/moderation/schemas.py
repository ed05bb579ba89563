"""Schemas of moderation and banned terms."""

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
    """Filters of the moderation queue."""

    status = Choice(
        *queries.QUEUE_STATES,
        load_default=queries.DEFAULT_QUEUE_STATE,
        metadata={
            "description": "`held` listings wait for staff, `screening` listings wait for the screening."
        },
    )
    campus = Text(max_length=100, metadata={"description": "Id or slug."})


class ApproveProduct(ExpectedRevision):
    """Approval of a listing."""

    note = Text(max_length=500, metadata={"description": "Kept in the audit trail."})


class RefuseProduct(ExpectedRevision):
    """Rejection or takedown of a listing, with the reason."""

    reason = Text(
        min_length=3, max_length=500, required=True, metadata={"description": "Shown to the vendor."}
    )


class BulkDelete(Schema):
    """Listings to delete because of a violation of the rules."""

    ids = UniqueList(Uuid(), min_length=1, max_length=staff_actions.MAX_BULK_DELETIONS, required=True)
    reason = Text(
        min_length=3,
        max_length=500,
        load_default=staff_actions.BULK_DELETION_REASON,
        metadata={"description": "Shown to the vendors and kept in the audit trail."},
    )


class BulkDeleted(Schema):
    """Ids by result of the deletion."""

    deleted = fields.List(Uuid(), required=True)
    already_deleted = fields.List(Uuid(), required=True)
    missing = fields.List(Uuid(), required=True)


class ModeratedVendor(StoreName):
    """The store of a listing."""

    verified = fields.Boolean(required=True)


class ModeratedProduct(ManagedListing):
    """A listing as staff see it in moderation."""

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
    since = Timestamp(required=True, metadata={"description": "Start of the current moderation state."})


class BanTerm(Schema):
    """A term for goods that may not be sold."""

    term = SingleLineText(max_length=banned_word_matcher.MAX_TERM_LENGTH, required=True)
    category = Choice(*banned_word_matcher.BANNED_CATEGORIES, required=True)
    exceptions = UniqueList(
        SingleLineText(max_length=banned_word_matcher.MAX_TERM_LENGTH),
        max_length=banned_word_matcher.MAX_EXCEPTIONS,
        load_default=list,
        metadata={"description": "Harmless phrases that contain the term."},
    )
    note = Text(max_length=500, load_default=None, allow_none=True)


class BannedTermView(Created):
    """A banned term, folded as for the screening."""

    term = fields.String(required=True)
    category = Choice(*banned_word_matcher.BANNED_CATEGORIES, required=True)
    exceptions = fields.List(fields.String(), required=True)
    note = fields.String(required=True, allow_none=True)
