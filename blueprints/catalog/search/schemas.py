"""Schemas of search, suggestions, synonyms and searches without results."""

from marshmallow import fields, validate

from blueprints.catalog.products.schemas import EstablishedStore, ProductCard, ProductQuery
from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.field_docs import doc
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
    """Search text and filters."""

    q = Text(min_length=2, max_length=100, required=True, metadata=doc("The search text.", "mathematics"))
    sort = Choice(
        "relevance", load_default="relevance", metadata=doc("Sort order of the results.", "relevance")
    )


class Merchant(EstablishedStore):
    """A store found by name."""

    campus_id = Uuid(required=True)


class SearchResults(Schema):
    """Results of a search. Only the first page has merchants."""

    products = fields.List(
        fields.Nested(ProductCard), required=True, metadata=doc("Products of the page, the best match first.")
    )
    merchants = fields.List(
        fields.Nested(Merchant),
        required=True,
        metadata=doc("Stores whose name matches; only on the first page.") | {"maxItems": 5},
        validate=validate.Length(max=5),
    )


class SearchMetaSchema(CursorMetaSchema):
    """The ``meta`` of a search. ``suggestion`` is a corrected spelling of the whole query, or null."""

    suggestion = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Corrected spelling of the whole query; null without a correction.", None),
    )


class SuggestionQuery(Schema):
    """The text typed so far."""

    q = Text(min_length=1, max_length=100, required=True, metadata=doc("Text typed so far.", "calc"))
    campus = Text(max_length=100, metadata=doc("Id or slug.", "north"))
    limit = IntegerParameter(
        minimum=1,
        maximum=suggestions.MAX_SUGGESTIONS,
        load_default=suggestions.MAX_SUGGESTIONS,
        metadata=doc("Maximum number of suggestions.", suggestions.MAX_SUGGESTIONS),
    )


class Suggestion(Schema):
    """A suggested search text."""

    text = fields.String(required=True, metadata=doc("Search text.", "calculators"))
    kind = Choice(*suggestions.KINDS, required=True, metadata=doc("Source of the text.", "category"))


class ZeroResultSearchQuery(OffsetQuery):
    """Filters and sort order of searches without results."""

    campus = Text(
        max_length=100,
        metadata=doc(
            "Id or slug. The default is the vendor's own campus, or all campuses for staff.", "north"
        ),
    )
    sort = sort_choice(zero_result_queries.SORTS, default="count")


class ZeroResultSearch(Schema):
    """A search without results in the last 30 days, with its count and last time."""

    query = fields.String(required=True, metadata=doc("Search text, folded.", "kettle"))
    count = StrictInteger(minimum=1, required=True, metadata=doc("Number of searches.", 7))
    last_at = Timestamp(required=True)


class AddSynonyms(Schema):
    """Words and phrases with the same meaning."""

    terms = UniqueList(
        SingleLineText(max_length=synonyms.MAX_TERM_LENGTH),
        max_length=synonyms.MAX_TERMS,
        required=True,
        metadata=doc(
            "At least two words or phrases of up to four words with the same meaning.",
            ["kettle", "water boiler"],
        ),
    )


class ChangeSynonyms(AddSynonyms, ExpectedRevision):
    """The complete terms of a synonym group."""


class SynonymGroupView(Revised):
    """A synonym group with folded terms."""

    terms = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Words and phrases in lower case.", ["kettle", "water boiler"]),
    )
