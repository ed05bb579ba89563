"""Alerts: what staff must see to, and that it is over."""

from typing import Any
from uuid import UUID

from blueprints.alerts.schemas import Alert, AlertQuery, ResolveAlert
from blueprints.http.contract import STAFF, Idempotency, Shared
from blueprints.http.endpoint import Area, Context
from marketplace.alerts import operations, queries
from marketplace.kernel.paging import Page

area = Area("alerts", "/api/admin/alerts", "Alerts, for staff")


@area.get("", auth=STAFF, limit=Shared.GLOBAL, query=AlertQuery, reply=Alert(many=True))
def list_alerts(ctx: Context, query: dict[str, Any]) -> Page:
    """List alerts, the latest first."""
    return queries.list_alerts(ctx.session, filters=queries.AlertFilters(**query), page=ctx.page)


@area.post(
    "/<uuid:alert_id>/resolve", auth=STAFF, limit=Shared.GLOBAL, body=ResolveAlert, reply=Alert,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def resolve_alert(ctx: Context, alert_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Resolve an alert by hand; money's take finance, all others the platform's staff."""
    operations.resolve_by_hand(
        ctx.session, alert_id=alert_id, note=body["note"], actor=ctx.actor, officer=ctx.user, now=ctx.now
    )
    return queries.alert(ctx.session, alert_id=alert_id)
