"""What is searched and suggested, and what staff and vendors see of it."""

from marshmallow import fields, validate

from blueprints.catalog.products.schemas import EstablishedStore, ProductCard, ProductQuery
from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.fields import (
    Choice,
    ExpectedRevision,
    IntegerParameter,
    OffsetQuery,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
    sort_choice,
)
from marketplace.catalog.search import suggestions, synonyms, zero_result_queries


class SearchQuery(ProductQuery):
    """What is searched, and what it is narrowed to."""

    q = Text(min_length=2, max_length=100, required=True, metadata={"description": "What a student types."})
    sort = Choice("relevance", load_default="relevance")


class Merchant(EstablishedStore):
    """A store that was found by its name."""

    campus_id = Uuid(required=True)


class SearchResults(Schema):
    """What was found. Merchants stand on the first page alone."""

    products = fields.List(fields.Nested(ProductCard), required=True)
    merchants = fields.List(
        fields.Nested(Merchant), required=True, metadata={"maxItems": 5}, validate=validate.Length(max=5)
    )


class SearchMetaSchema(CursorMetaSchema):
    """The ``meta`` of a search: ``suggestion`` is the nearest spelling of the whole query, if another one."""

    suggestion = fields.String(required=True, allow_none=True)


class SuggestionQuery(Schema):
    """What was typed so far."""

    q = Text(min_length=1, max_length=100, required=True)
    campus = Text(max_length=100, metadata={"description": "Id or slug."})
    limit = IntegerParameter(
        minimum=1, maximum=suggestions.MAX_SUGGESTIONS, load_default=suggestions.MAX_SUGGESTIONS
    )


class Suggestion(Schema):
    """What may be meant."""

    text = fields.String(required=True)
    kind = Choice(*suggestions.KINDS, required=True)


class ZeroResultSearchQuery(OffsetQuery):
    """Which misses, and in what order."""

    campus = Text(
        max_length=100,
        metadata={"description": "Id or slug; a vendor's own campus unless given, all campuses for staff."},
    )
    sort = sort_choice(zero_result_queries.SORTS, default="count")


class ZeroResultSearch(Schema):
    """What was searched in vain in the last 30 days, how often, and when last."""

    query = fields.String(required=True)
    count = StrictInteger(minimum=1, required=True)
    last_at = Timestamp(required=True)


class AddSynonyms(Schema):
    """Words and phrases that mean the same."""

    terms = UniqueList(
        SingleLineText(max_length=synonyms.MAX_TERM_LENGTH),
        max_length=synonyms.MAX_TERMS,
        required=True,
        metadata={"description": "Words or phrases of up to four words that mean the same; two at least."},
    )


class ChangeSynonyms(AddSynonyms, ExpectedRevision):
    """All terms of a group."""


class SynonymGroupView(Revised):
    """A group of synonyms, folded as searches are."""

    terms = fields.List(fields.String(), required=True)
