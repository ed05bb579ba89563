"""Webhooks that came in, for finance: what became of each, and replaying those that failed."""

from typing import Any
from uuid import UUID

from blueprints.http import FINANCE, FINANCE_AAL2, Context, ContractBlueprint, Idempotency, SharedLimit
from blueprints.webhooks.schemas import (
    ReplayWebhook,
    Webhook,
    WebhookQuery,
    WebhookReplayResult,
    WebhookRow,
    WebhooksMetaSchema,
)
from marketplace.kernel.paging import Page
from marketplace.webhooks import queries, replay

area = ContractBlueprint("webhooks", "/api/admin/webhooks", "Webhooks that came in")

# What events do is move money; a replay has them do it.


@area.get(
    "", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=WebhookQuery, reply=WebhookRow(many=True),
    meta=WebhooksMetaSchema,
)  # fmt: skip
def list_webhooks(ctx: Context, query: dict[str, Any]) -> Page:
    """List events, the latest first, with how many there are in each state."""
    return queries.list_events_for_staff(
        ctx.session, filters=queries.WebhookEventFilters(**query), page=ctx.page, now=ctx.now
    )


@area.get("/<uuid:webhook_id>", auth=FINANCE, limit=SharedLimit.CALLER_TIER, reply=Webhook)
def show_webhook(ctx: Context, webhook_id: UUID) -> queries.WebhookEventDetail:
    """Show an event with the part of its payload that tells nothing of a person."""
    return queries.fetch_event(ctx.session, inbox_id=webhook_id)


@area.post(
    "/<uuid:webhook_id>/replay", auth=FINANCE_AAL2, limit="30/minute", body=ReplayWebhook, reply=WebhookReplayResult,
    idempotent=Idempotency.OPTIONAL,
    raises=(replay.EventInProgressError,),
)  # fmt: skip
def replay_webhook(ctx: Context, webhook_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Try an event once more, or show what that would change. What is over stays as it is."""
    database, bearer = ctx.services.database, ctx.services.settings.gateway_fee_bearer
    if body["dry_run"]:
        result = replay.dry_run_event(database, inbox_id=webhook_id, fee_bearer=bearer, now=ctx.now)
    else:
        with database.reading() as committed:
            result = replay.replay_event(
                ctx.session, committed, inbox_id=webhook_id, fee_bearer=bearer, act=ctx.act
            )
    return {
        "id": webhook_id,
        "dry_run": body["dry_run"],
        "outcome": result.outcome,
        "before": queries.STATE_OF[result.before],
        "after": queries.STATE_OF[result.after],
        "error": result.error,
        "changes": result.changes,
    }
