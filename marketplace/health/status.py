"""How the service is, as everybody may know it: no addresses, no versions, no figures."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.queries import open_subjects
from marketplace.health.queries import cache_answers
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.platform.features import Maintenance, features_of, maintenance_of
from marketplace.platform.halts import payouts_halted
from marketplace.platform.queries import platform_settings

State = Literal["operational", "degraded", "down"]
OPERATIONAL: State = "operational"
DEGRADED: State = "degraded"
DOWN: State = "down"
# The worst comes last.
STATES: tuple[State, ...] = (OPERATIONAL, DEGRADED, DOWN)
MAINTENANCE = "maintenance"
COMPONENTS = ("database", "cache", "payments", "payouts")

_PAYMENTS_DOWN = (kinds.GATEWAY_KEY_REFUSED, kinds.GATEWAY_UNREACHABLE)


def status(database: Database, cache: Cache, *, now: datetime) -> dict[str, Any]:
    """Tell whether there is maintenance, which features are on, and how each component is.

    It answers also where the database does not.

    :param now: when
    """
    components: dict[str, State] = dict.fromkeys(COMPONENTS, OPERATIONAL)
    if not cache_answers(cache):
        # It costs speed, and nothing else.
        components["cache"] = DEGRADED
    maintenance, features = Maintenance(active=False), features_of({})
    try:
        with database.reading() as session:
            settings = platform_settings(session)
            maintenance, features = maintenance_of(settings, now=now), features_of(settings)
            components |= {"payments": _payments(session), "payouts": _payouts(session)}
    except ServiceUnavailableError:
        components |= dict.fromkeys(("database", "payments", "payouts"), DOWN)
    worst = max(components.values(), key=STATES.index)
    return {
        "status": MAINTENANCE if maintenance.active and worst != DOWN else worst,
        "maintenance": {
            "active": maintenance.active,
            "message": maintenance.message,
            "until": maintenance.until,
        },
        "components": [{"name": name, "status": state} for name, state in components.items()],
        "features": features,
    }


def _payments(session: Session) -> State:
    """Tell how payments are by what is known of the gateway: nobody is asked while a client waits."""
    troubled = any(open_subjects(session, identifier=identifier) for identifier in _PAYMENTS_DOWN)
    return DEGRADED if troubled else OPERATIONAL


def _payouts(session: Session) -> State:
    return DEGRADED if payouts_halted(session) else OPERATIONAL
