"""Readiness and public status of the service, without addresses, versions or figures."""

from datetime import datetime
from typing import Any, Literal

import structlog
from sqlalchemy import select

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.queries import list_open_subjects
from marketplace.health import incidents
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.infra.settings import SettingsError
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.platform.features import Maintenance, read_features, read_maintenance
from marketplace.platform.halts import are_payouts_halted
from marketplace.platform.models import PlatformSetting
from marketplace.platform.queries import fetch_platform_settings

ComponentStatus = Literal["operational", "degraded", "down"]
OPERATIONAL: ComponentStatus = "operational"
DEGRADED: ComponentStatus = "degraded"
DOWN: ComponentStatus = "down"
# Ordered from best to worst.
COMPONENT_STATUSES: tuple[ComponentStatus, ...] = (OPERATIONAL, DEGRADED, DOWN)
MAINTENANCE = "maintenance"
COMPONENTS = ("database", "cache", "payments", "payouts")

_log = structlog.get_logger(__name__)


def check_readiness(database: Database, cache: Cache) -> dict[str, bool]:
    """Check that the database and the cache respond.

    The check reads a row of the platform settings and pings the cache. A database role without the required session
    settings counts as a failed check.
    """
    try:
        with database.reading() as session:
            has_database = session.scalar(select(PlatformSetting.key).limit(1)) is not None
    except ServiceUnavailableError:
        has_database = False
    except SettingsError as error:
        # No other request reaches an instance that is not ready, so log the cause here.
        _log.error("database role refused", error=str(error))
        has_database = False
    return {"database": has_database, "cache": _is_cache_available(cache)}


def _is_cache_available(cache: Cache) -> bool:
    try:
        cache.ping()
    except CacheDownError:
        return False
    return True


def fetch_service_status(database: Database, cache: Cache, *, now: datetime) -> dict[str, Any]:
    """Fetch the maintenance state, the enabled features, the status of each component and the incidents.

    Without the database, the components that need the database are reported as ``down``.
    """
    components: dict[str, ComponentStatus] = dict.fromkeys(COMPONENTS, OPERATIONAL)
    if not _is_cache_available(cache):
        # Without the cache the service is only slower.
        components["cache"] = DEGRADED
    maintenance, features = Maintenance(active=False), read_features({})
    shown: list[incidents.IncidentReport] = []
    try:
        with database.reading() as session:
            settings = fetch_platform_settings(session)
            maintenance, features = read_maintenance(settings, now=now), read_features(settings)
            # Derive the status from open alerts: a call to the gateway would keep the client waiting.
            gateway_alerts: tuple[AlertIdentifier, ...] = ("GATEWAY_KEY_REFUSED", "GATEWAY_UNREACHABLE")
            if any(list_open_subjects(session, identifier=identifier) for identifier in gateway_alerts):
                components["payments"] = DEGRADED
            if are_payouts_halted(session):
                components["payouts"] = DEGRADED
            shown = incidents.list_shown_incidents(session, now=now)
    except (ServiceUnavailableError, SettingsError):
        components |= dict.fromkeys(("database", "payments", "payouts"), DOWN)
    for incident in (report.incident for report in shown if report.incident.resolved_at is None):
        announced = DOWN if incident.impact == incidents.CRITICAL else DEGRADED
        for name in incident.components:
            components[name] = max(components[name], announced, key=COMPONENT_STATUSES.index)
    worst = max(components.values(), key=COMPONENT_STATUSES.index)
    return {
        "status": MAINTENANCE if maintenance.active and worst != DOWN else worst,
        "maintenance": maintenance,
        "components": [{"name": name, "status": state} for name, state in components.items()],
        "features": features,
        "incidents": shown,
    }
