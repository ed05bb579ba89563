"""Health probes, without the response envelope."""

from flask import Response

from blueprints.health.schemas import LivenessView, ReadinessView
from blueprints.http import JSON_TYPE, UNCHECKED, Context, ContractBlueprint, ProcessGroup, SharedLimit
from blueprints.http.envelope import dump_json
from marketplace.health import queries

area = ContractBlueprint("health", "/health", "Health probes")


@area.get(
    "/live",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=LivenessView,
    enveloped=False,
    phased=True,
    # Answers although all sync workers are busy.
    group=ProcessGroup.WAITING,
)
def check_liveness(_ctx: Context) -> Response:
    """Confirm that the process is alive, without checking dependencies."""
    return Response(b'{"status":"live"}', content_type=JSON_TYPE)


@area.get(
    "/ready",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=ReadinessView,
    enveloped=False,
    phased=True,
    group=ProcessGroup.API,
    further_statuses=(503,),
)
def check_readiness(ctx: Context) -> Response:
    """Check that the service is ready: the database and the cache answer."""
    checks = queries.check_readiness(ctx.services.database, ctx.services.cache)
    is_ready = all(checks.values())
    body = {
        "status": "ready" if is_ready else "not_ready",
        "checks": {name: "up" if answers else "down" for name, answers in checks.items()},
    }
    return Response(dump_json(body), status=200 if is_ready else 503, content_type=JSON_TYPE)
