"""Routes for search, suggestions, synonyms and searches without results."""

from typing import Any
from uuid import UUID

from blueprints.catalog.search.schemas import (
    AddSynonyms,
    ChangeSynonyms,
    SearchMetaSchema,
    SearchQuery,
    SearchResults,
    Suggestion,
    SuggestionQuery,
    SynonymGroupView,
    ZeroResultSearch,
    ZeroResultSearchQuery,
)
from blueprints.http import (
    PRODUCT_STAFF,
    PUBLIC,
    VENDOR_OR_STAFF,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    SharedLimit,
    expected_revision,
)
from marketplace.catalog import cache_tags
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.catalog.search import find, suggestions, synonyms, zero_result_queries
from marketplace.catalog.search.models import SearchSynonyms
from marketplace.kernel.errors import LimitReachedError, StaleRevisionError
from marketplace.kernel.paging import Page, TablePage

area = ContractBlueprint("search", "/api/products", "Search")


@area.get(
    "/search", auth=PUBLIC, limit="60/minute", query=SearchQuery, reply=SearchResults, meta=SearchMetaSchema
)
def search_products(ctx: Context, query: dict[str, Any]) -> Page:
    """Search for products and merchants, most relevant first."""
    return find.search_catalog(
        ctx.session,
        query=query["q"],
        filters=ProductFilters(**{name: value for name, value in query.items() if name not in ("q", "sort")}),
        page=ctx.page,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )


@area.get(
    "/suggestions",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=SuggestionQuery,
    reply=Suggestion(many=True),
    cache=900,
    tags=(cache_tags.CATEGORIES,),
)
def suggest_searches(ctx: Context, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Suggest titles, categories and stores with a word that has the typed prefix."""
    return suggestions.suggest(
        ctx.session,
        prefix=query["q"],
        campus=query.get("campus"),
        limit=query["limit"],
        now=ctx.now,
    )


@area.get(
    "/search/misses",
    auth=VENDOR_OR_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=ZeroResultSearchQuery,
    reply=ZeroResultSearch(many=True),
)
def list_zero_result_queries(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List searches without results of the last 30 days, most frequent first."""
    return zero_result_queries.list_zero_result_queries(
        ctx.session,
        campus=query.get("campus"),
        vendor_user_id=None if ctx.user.is_staff else ctx.user.id,
        page=ctx.table,
        now=ctx.now,
    )


@area.get(
    "/search/synonyms",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=SynonymGroupView(many=True),
)
def list_synonyms(ctx: Context, query: dict[str, Any]) -> Page:
    """List the synonym groups."""
    return synonyms.list_synonyms(ctx.session, page=ctx.page)


@area.post(
    "/search/synonyms",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=AddSynonyms,
    reply=SynonymGroupView,
    status=201,
    raises=(LimitReachedError,),
)
def create_synonyms(ctx: Context, body: dict[str, Any]) -> SearchSynonyms:
    """Create a synonym group."""
    return synonyms.create_synonyms(ctx.session, ctx.act, terms=body["terms"])


@area.put(
    "/search/synonyms/<uuid:synonyms_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ChangeSynonyms,
    reply=SynonymGroupView,
    raises=(StaleRevisionError,),
)
def update_synonyms(ctx: Context, synonyms_id: UUID, body: dict[str, Any]) -> SearchSynonyms:
    """Replace the terms of a synonym group."""
    return synonyms.update_synonyms(
        ctx.session,
        ctx.act,
        synonyms_id=synonyms_id,
        revision=expected_revision(body.get("revision")),
        terms=body["terms"],
    )


@area.delete(
    "/search/synonyms/<uuid:synonyms_id>", auth=PRODUCT_STAFF, limit=SharedLimit.CALLER_TIER, reply=Deleted
)
def delete_synonyms(ctx: Context, synonyms_id: UUID) -> dict[str, Any]:
    """Delete a synonym group."""
    synonyms.delete_synonyms(ctx.session, ctx.act, synonyms_id=synonyms_id)
    return {"deleted": True, "id": synonyms_id}
