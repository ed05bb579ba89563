"""Health probes, outside the envelope."""

from flask import Response

from blueprints.health.schemas import Live, Ready
from blueprints.http.contract import UNCHECKED, Group, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.http.envelope import JSON_TYPE, dump
from marketplace.health import queries

area = Area("health", "/health", "Probes")


@area.get(
    "/live", auth=UNCHECKED, limit=Shared.UNLIMITED, reply=Live, enveloped=False, phased=True, group=Group.API
)
def live(_ctx: Context) -> Response:
    """Tell that the process answers, without asking anything else."""
    return Response(b'{"status":"live"}', content_type=JSON_TYPE)


@area.get(
    "/ready",
    auth=UNCHECKED,
    limit=Shared.UNLIMITED,
    reply=Ready,
    enveloped=False,
    phased=True,
    group=Group.API,
)
def ready(ctx: Context) -> Response:
    """Tell whether the service can serve: the database and the cache answer."""
    found = queries.readiness(ctx.services.database, ctx.services.cache)
    body = {
        "status": "ready" if found.ready else "not_ready",
        "checks": {"database": "up" if found.database else "down", "cache": "up" if found.cache else "down"},
    }
    return Response(dump(body), status=200 if found.ready else 503, content_type=JSON_TYPE)
