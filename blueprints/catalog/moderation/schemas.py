"""Schemas of moderation and banned terms."""

from marshmallow import fields

from blueprints.catalog.products.schemas import CampusOrCategory, ManagedListing
from blueprints.http.field_docs import OTHER_ID, PLACED_AT, doc
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
from marketplace.kernel import demo_ids


class ModerationQuery(CursorQuery):
    """Filters of the moderation queue."""

    status = Choice(
        *queries.QUEUE_STATES,
        load_default=queries.DEFAULT_QUEUE_STATE,
        metadata={
            "description": "`held` listings wait for staff, `screening` listings wait for the screening."
        },
    )
    campus = Text(max_length=100, metadata=doc("Id or slug.", "north"))


class ApproveProduct(ExpectedRevision):
    """Approval of a listing."""

    note = Text(max_length=500, metadata=doc("Kept in the audit trail.", "The vendor showed the receipt."))


class RefuseProduct(ExpectedRevision):
    """Rejection or takedown of a listing, with the reason."""

    reason = Text(
        min_length=3,
        max_length=500,
        required=True,
        metadata=doc("Shown to the vendor.", "The picture shows another product."),
    )


class BulkDelete(Schema):
    """Listings to delete because of a violation of the rules."""

    ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=staff_actions.MAX_BULK_DELETIONS,
        required=True,
        metadata=doc("Ids of the listings.", [OTHER_ID]),
    )
    reason = Text(
        min_length=3,
        max_length=500,
        load_default=staff_actions.BULK_DELETION_REASON,
        metadata=doc("Shown to the vendors and kept in the audit trail.", "Counterfeit goods"),
    )


class BulkDeleted(Schema):
    """Ids by result of the deletion."""

    deleted = fields.List(
        Uuid(), required=True, metadata=doc("Ids of listings that this request deleted.", [OTHER_ID])
    )
    already_deleted = fields.List(
        Uuid(), required=True, metadata=doc("Ids of listings that were deleted before.", [])
    )
    missing = fields.List(Uuid(), required=True, metadata=doc("Ids without a listing.", []))


class ModeratedVendor(StoreName):
    """The store of a listing."""

    verified = fields.Boolean(required=True)


class ModeratedProduct(ManagedListing):
    """A listing as staff see it in moderation."""

    title = fields.String(required=True)
    description = fields.String(
        required=True,
        metadata=doc(
            "Text for buyers.", "Engineering Mathematics by Stroud (latest edition). Brand new, never used."
        ),
    )
    price_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    condition = Choice(*rules.CONDITIONS, required=True)
    tags = fields.List(fields.String(), required=True)
    image_urls = fields.List(
        fields.String(),
        required=True,
        metadata=doc(
            "URLs of the images in display order.",
            ["https://media.example.com/products/5e884898da280471.webp"],
        ),
    )
    campus = fields.Nested(CampusOrCategory, required=True, metadata=doc("Campus of the store."))
    category = fields.Nested(
        CampusOrCategory,
        required=True,
        metadata=doc(
            "Category of the listing.", {"id": demo_ids.CATEGORY, "name": "Textbooks", "slug": "textbooks"}
        ),
    )
    vendor = fields.Nested(ModeratedVendor, required=True, metadata=doc("Store of the listing."))
    status = Choice(
        *sorted(states.PRODUCT.states), required=True, metadata=doc("Status of the listing.", "in_review")
    )
    since = Timestamp(required=True, metadata=doc("Start of the current moderation state.", PLACED_AT))


class BanTerm(Schema):
    """A term for goods that may not be sold."""

    term = SingleLineText(
        max_length=banned_word_matcher.MAX_TERM_LENGTH,
        required=True,
        metadata=doc(
            "Word or phrase. Case, accents and common disguises of letters do not matter.", "ghost writer"
        ),
    )
    category = Choice(
        *banned_word_matcher.BANNED_CATEGORIES,
        required=True,
        metadata=doc("Kind of forbidden goods.", "exam_malpractice"),
    )
    exceptions = UniqueList(
        SingleLineText(max_length=banned_word_matcher.MAX_TERM_LENGTH),
        max_length=banned_word_matcher.MAX_EXCEPTIONS,
        load_default=list,
        metadata=doc("Harmless phrases that contain the term.", ["ghost writer novel"]),
    )
    note = Text(
        max_length=500,
        load_default=None,
        metadata=doc("Note for other moderators; null without a note.", "Sold before each exam period."),
    )


class BannedTermView(Created):
    """A banned term, folded as for the screening."""

    term = fields.String(required=True, metadata=doc("Word or phrase, folded.", "ghost writer"))
    category = Choice(
        *banned_word_matcher.BANNED_CATEGORIES,
        required=True,
        metadata=doc("Kind of forbidden goods.", "exam_malpractice"),
    )
    exceptions = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Harmless phrases that contain the term, folded.", ["ghost writer novel"]),
    )
    note = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Note for other moderators; null without a note.", "Sold before each exam period."),
    )
