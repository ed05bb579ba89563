"""Incoming webhooks for finance: list, show and replay events."""

from typing import Any

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

area = ContractBlueprint("webhooks", "/api/admin/webhooks", "Incoming webhooks")

# Events move money, and so does a replay. Therefore a replay needs finance permission and two factors.


@area.get(
    "", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=WebhookQuery, reply=WebhookRow(many=True),
    meta=WebhooksMetaSchema,
)  # fmt: skip
def list_webhooks(ctx: Context, query: dict[str, Any]) -> Page:
    """List webhook events, newest first, with counts by state."""
    return queries.list_events_for_staff(
        ctx.session, filters=queries.WebhookEventFilters(**query), page=ctx.page, now=ctx.now
    )


# `webhook_id` is the id, the gateway event's id, or the gateway's reference.


@area.get(
    "/<string:webhook_id>",
    auth=FINANCE,
    limit=SharedLimit.CALLER_TIER,
    reply=Webhook,
    raises=(queries.SeveralEventsError,),
)
def get_webhook(ctx: Context, webhook_id: str) -> queries.WebhookEventDetail:
    """Show a webhook event with the part of the payload that identifies no person."""
    inbox_id = queries.resolve_identifier(ctx.session, identifier=webhook_id)
    return queries.fetch_event(ctx.session, inbox_id=inbox_id)


@area.post(
    "/<string:webhook_id>/replay", auth=FINANCE_AAL2, limit="30/minute", body=ReplayWebhook, reply=WebhookReplayResult,
    idempotent=Idempotency.OPTIONAL,
    raises=(replay.EventInProgressError, queries.SeveralEventsError),
)  # fmt: skip
def replay_webhook(ctx: Context, webhook_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Replay a webhook event, or show the changes of a replay.

    A replay of a processed or ignored event changes nothing.
    """
    inbox_id = queries.resolve_identifier(ctx.session, identifier=webhook_id)
    database, bearer = ctx.services.database, ctx.services.settings.gateway_fee_bearer
    if body["dry_run"]:
        result = replay.dry_run_event(database, inbox_id=inbox_id, fee_bearer=bearer, now=ctx.now)
    else:
        with database.reading() as committed:
            result = replay.replay_event(
                ctx.session, committed, inbox_id=inbox_id, fee_bearer=bearer, act=ctx.act
            )
    return {
        "id": inbox_id,
        "dry_run": body["dry_run"],
        "outcome": result.outcome,
        "before": queries.STATE_OF[result.before],
        "after": queries.STATE_OF[result.after],
        "error": result.error,
        "changes": result.changes,
    }
