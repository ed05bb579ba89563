"""Features that officers switch, and maintenance: what is off is refused with 503, and clients are told so.

A flag that the service itself does not know is kept and shown, for applications that do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from marketplace.kernel.errors import ServiceUnavailableError

MAINTENANCE = "maintenance"
_FLAG = "feature:"
# How long clients wait before they look again, where nobody said when it ends.
_LOOK_AGAIN_SECONDS = 300
_LONGEST_WAIT_SECONDS = 3600

CHECKOUT = "checkout"
EARLY_WITHDRAWALS = "early_withdrawals"
WALLET_CASH_OUTS = "wallet_cash_outs"
SCHEDULED_PAYOUTS = "scheduled_payouts"


@dataclass(frozen=True)
class Feature:
    """Something of the service that can be switched off: what it is, and whether maintenance does so too."""

    meaning: str
    off_in_maintenance: bool = False


FEATURES: dict[str, Feature] = {
    CHECKOUT: Feature("Orders are placed.", off_in_maintenance=True),
    EARLY_WITHDRAWALS: Feature(
        "Vendors ask for what they have before the next batch.", off_in_maintenance=True
    ),
    WALLET_CASH_OUTS: Feature("Buyers have their wallets paid out.", off_in_maintenance=True),
    SCHEDULED_PAYOUTS: Feature("The schedule stages batches of payouts."),
}


@dataclass(frozen=True)
class Maintenance:
    """Whether the platform is being worked on; ``until`` is when that ends by itself, if anybody said."""

    active: bool
    message: str | None = None
    until: datetime | None = None


class SwitchedOffError(ServiceUnavailableError):
    """The feature is switched off, or the platform is being worked on."""


def flag_setting(key: str) -> str:
    """Name the platform setting that a flag is kept in."""
    return f"{_FLAG}{key}"


def features_of(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Tell which features are on: those of the service, and what was set beside them.

    :param settings: the platform's
    """
    given = {
        name.removeprefix(_FLAG): bool(value) for name, value in settings.items() if name.startswith(_FLAG)
    }
    return dict.fromkeys(FEATURES, True) | given


def maintenance_of(settings: Mapping[str, Any], *, now: datetime) -> Maintenance:
    """Tell whether the platform is being worked on.

    :param settings: the platform's
    :param now: when; what has ended by then is over
    """
    kept = settings.get(MAINTENANCE) or {}
    until = datetime.fromisoformat(kept["until"]) if kept.get("until") else None
    if not kept.get("active") or (until is not None and until <= now):
        return Maintenance(active=False)
    return Maintenance(active=True, message=kept.get("message"), until=until)


def is_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> bool:
    """Tell whether a feature of the service is on.

    :param settings: the platform's
    :param feature: of ``FEATURES``
    :param now: when
    """
    paused = FEATURES[feature].off_in_maintenance and maintenance_of(settings, now=now).active
    return features_of(settings)[feature] and not paused


def require_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> None:
    """Refuse what belongs to a feature that is off.

    :param settings: the platform's
    :param feature: of ``FEATURES``
    :param now: when
    :raises SwitchedOffError: it is switched off, or the platform is being worked on
    """
    maintenance = maintenance_of(settings, now=now)
    if FEATURES[feature].off_in_maintenance and maintenance.active:
        said = f" {maintenance.message}" if maintenance.message else ""
        raise SwitchedOffError(
            f"The platform is being worked on.{said}",
            retry_after_seconds=_seconds_until(maintenance.until, now=now),
        )
    if not features_of(settings)[feature]:
        raise SwitchedOffError(
            f"The feature {feature} is switched off for now.", retry_after_seconds=_LOOK_AGAIN_SECONDS
        )


def _seconds_until(until: datetime | None, *, now: datetime) -> int:
    if until is None:
        return _LOOK_AGAIN_SECONDS
    return min(max(int((until - now).total_seconds()), 1), _LONGEST_WAIT_SECONDS)
