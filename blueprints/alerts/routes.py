"""Routes of alerts, for staff."""

from typing import Any
from uuid import UUID

from blueprints.alerts.schemas import AlertQuery, AlertView, ResolveAlert
from blueprints.http import STAFF, Context, ContractBlueprint, Idempotency, SharedLimit
from marketplace.alerts import operations, queries
from marketplace.alerts.models import Alert
from marketplace.kernel.errors import PermissionRequiredError
from marketplace.kernel.paging import Page

area = ContractBlueprint("alerts", "/api/admin/alerts", "Alerts, for staff")


@area.get("", auth=STAFF, limit=SharedLimit.CALLER_TIER, query=AlertQuery, reply=AlertView(many=True))
def list_alerts(ctx: Context, query: dict[str, Any]) -> Page:
    """List alerts, the latest first."""
    return queries.list_alerts(ctx.session, page=ctx.page, **query)


@area.post(
    "/<uuid:alert_id>/resolve", auth=STAFF, limit=SharedLimit.CALLER_TIER, body=ResolveAlert, reply=AlertView,
    idempotent=Idempotency.OPTIONAL,
    raises=(operations.AlertAlreadyResolvedError, PermissionRequiredError),
)  # fmt: skip
def resolve_alert(ctx: Context, alert_id: UUID, body: dict[str, Any]) -> Alert:
    """Resolve an alert. Alerts about money require `canManageFinances`, all others `canManagePlatform`."""
    operations.resolve_manually(
        ctx.session, alert_id=alert_id, note=body["note"], act=ctx.act, officer=ctx.user
    )
    return queries.fetch_alert(ctx.session, alert_id=alert_id)
