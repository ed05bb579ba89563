"""Routes of incidents, which staff announce on the status page."""

from typing import Any
from uuid import UUID

from blueprints.health.status_schemas import AddIncidentNote, IncidentView, OpenIncident
from blueprints.http import (
    PLATFORM_STAFF,
    Context,
    ContractBlueprint,
    CursorQuery,
    Idempotency,
    SharedLimit,
)
from marketplace.health import incidents
from marketplace.kernel.paging import Page

incident_area = ContractBlueprint("incidents", "/api/admin/incidents", "Incidents of the status page")


@incident_area.get(
    "",
    auth=PLATFORM_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=IncidentView(many=True),
)
def list_incidents(ctx: Context, query: dict[str, Any]) -> Page:
    """List all incidents with notes, the latest first."""
    return incidents.list_incidents(ctx.session, page=ctx.page)


@incident_area.post(
    "",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=OpenIncident,
    reply=IncidentView,
    status=201,
    idempotent=Idempotency.OPTIONAL,
)
def open_incident(ctx: Context, body: dict[str, Any]) -> incidents.IncidentReport:
    """Announce an incident on the status page."""
    return incidents.open_incident(ctx.session, act=ctx.act, **body)


@incident_area.post(
    "/<uuid:incident_id>/notes",
    auth=PLATFORM_STAFF,
    limit="30/minute",
    body=AddIncidentNote,
    reply=IncidentView,
    status=201,
    idempotent=Idempotency.OPTIONAL,
    raises=(incidents.IncidentResolvedError,),
)
def add_incident_note(ctx: Context, incident_id: UUID, body: dict[str, Any]) -> incidents.IncidentReport:
    """Add a note to an incident, or resolve the incident."""
    return incidents.add_incident_note(ctx.session, incident_id=incident_id, act=ctx.act, **body)
