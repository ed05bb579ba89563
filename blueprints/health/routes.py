"""Health probes, without the response envelope."""

from typing import Any

from flask import Response

from blueprints.health.schemas import (
    DependencyReadinessView,
    DiagnosticView,
    LivenessView,
    ProcessLivenessView,
    ReadinessView,
)
from blueprints.http import JSON_TYPE, UNCHECKED, Context, ContractBlueprint, ProcessGroup, SharedLimit
from blueprints.http.envelope import dump_json
from marketplace.health import diagnostic, queries
from marketplace.health.dependencies import Dependencies

area = ContractBlueprint("health", "/health", "Health probes")


@area.get(
    "/live",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=LivenessView,
    enveloped=False,
    phased=True,
    # The waiting group answers even when all sync workers are busy.
    group=ProcessGroup.WAITING,
)
def check_liveness(_ctx: Context) -> Response:
    """Confirm that the process is alive, without checking dependencies."""
    return Response(b'{"status":"live"}', content_type=JSON_TYPE)


@area.get(
    "/liveness",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=ProcessLivenessView,
    enveloped=False,
    phased=True,
    group=ProcessGroup.WAITING,
)
def check_process_liveness(_ctx: Context) -> Response:
    """Confirm that the process is alive. Another name of `/health/live` for older monitors."""
    return Response(b'{"status":"alive"}', content_type=JSON_TYPE)


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
    return _respond(body, status=200 if is_ready else 503)


@area.get(
    "/readiness",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=DependencyReadinessView,
    enveloped=False,
    phased=True,
    further_statuses=(503,),
)
def check_dependency_readiness(ctx: Context) -> Response:
    """Check seven dependencies. Only the database and the cache decide about the status."""
    is_healthy, body = diagnostic.check_all(ctx.services.probe_results, _dependencies(ctx), now=ctx.now)
    return _respond(body, status=200 if is_healthy else 503)


@area.get(
    "",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    reply=DiagnosticView,
    enveloped=False,
    phased=True,
)
def show_diagnostic(ctx: Context) -> Response:
    """Check seven dependencies in parallel. The answer is always 200. Results are reused for five seconds."""
    body = diagnostic.diagnose(
        ctx.services.probe_results,
        _dependencies(ctx),
        now=ctx.now,
        request_id=str(ctx.request_id),
    )
    return _respond(body)


def _dependencies(ctx: Context) -> Dependencies:
    services = ctx.services
    return Dependencies(
        settings=services.settings,
        database=services.database,
        cache=services.cache,
        gateway=services.gateway_records,
        storage=services.storage,
        language_model=services.language_model,
        sms=services.sms,
        tokens=services.token_verifier,
    )


def _respond(body: dict[str, Any], *, status: int = 200) -> Response:
    return Response(dump_json(body), status=status, content_type=JSON_TYPE)
