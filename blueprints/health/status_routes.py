"""The public status of the service, as JSON and as a page."""

from typing import Any

from flask import Response, render_template
from flask.blueprints import BlueprintSetupState

from blueprints.health.status_schemas import PlatformStatus
from blueprints.http import PUBLIC, Context, ContractBlueprint, ProcessGroup, SharedLimit
from blueprints.http.auth import admit_to_path_without_contract
from blueprints.http.caching import compute_shared
from blueprints.http.context import current_context
from marketplace.health import queries as health, texts
from marketplace.kernel.opening_hours import LAGOS
from marketplace.platform import cache_tags

status_area = ContractBlueprint("status", "/api/status", "Status of the service")
_FRESH_SECONDS = 30
_PAGE_TEXTS = {
    "headlines": texts.STATUS_HEADLINES,
    "advice": texts.STATUS_ADVICE,
    "planned_end": texts.PLANNED_END,
    "components": texts.COMPONENT_TITLES,
    "component_statuses": texts.COMPONENT_STATUS_WORDS,
    "incidents": texts.INCIDENTS_TITLE,
    "no_incidents": texts.NO_INCIDENTS,
    "impacts": texts.IMPACT_WORDS,
    "note_statuses": texts.NOTE_STATUS_WORDS,
    "updated": texts.STATUS_UPDATED,
}


@status_area.get(
    "", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, reply=PlatformStatus, cache=_FRESH_SECONDS,
    tags=(cache_tags.STATUS,), phased=True, group=ProcessGroup.API,
)  # fmt: skip
def get_platform_status(ctx: Context) -> dict[str, Any]:
    """Get the status of the service: maintenance, components, features and incidents."""
    return health.fetch_service_status(ctx.services.database, ctx.services.cache, now=ctx.now)


def show_status_page() -> Response:
    """Return the status page for people."""
    ctx = current_context()
    admit_to_path_without_contract(ctx)

    def render() -> bytes:
        found = health.fetch_service_status(ctx.services.database, ctx.services.cache, now=ctx.now)
        page = render_template(
            "status.html",
            found=found,
            texts=_PAGE_TEXTS,
            show_time=lambda moment: moment.astimezone(LAGOS).strftime("%-d %b %Y, %H:%M"),
            now=ctx.now,
        )
        return page.encode()

    page = compute_shared(
        ctx, key="page:status", tags=(cache_tags.STATUS,), ttl_seconds=_FRESH_SECONDS, compute=render
    )
    return Response(page, content_type="text/html; charset=utf-8")


def _add_page(state: BlueprintSetupState) -> None:
    state.app.add_url_rule("/status", "status_page", show_status_page)


status_area.record_once(_add_page)
