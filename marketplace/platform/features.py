"""Features that officers switch, and maintenance: what is off is refused with 503, and clients are told so.

A flag that the service itself does not know is kept and shown, for applications that do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from marketplace.kernel.errors import ServiceUnavailableError

MAINTENANCE = "maintenance"
_FEATURE_PREFIX = "feature:"
# How long clients wait before they look again, where nobody said when it ends.
_RETRY_AFTER_SECONDS = 300
_MAX_RETRY_AFTER_SECONDS = 3600

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


class FeatureUnavailableError(ServiceUnavailableError):
    """The feature is switched off, or the platform is under maintenance."""

    reason = "feature-unavailable"


def feature_setting_key(key: str) -> str:
    """Name the platform setting that a flag is kept in."""
    return f"{_FEATURE_PREFIX}{key}"


def read_features(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Tell which features are on: those of the service, and what was set beside them.

    :param settings: the platform's
    """
    return dict.fromkeys(FEATURES, True) | {
        name.removeprefix(_FEATURE_PREFIX): bool(value)
        for name, value in settings.items()
        if name.startswith(_FEATURE_PREFIX)
    }


def read_maintenance(settings: Mapping[str, Any], *, now: datetime) -> Maintenance:
    """Tell whether the platform is being worked on.

    :param settings: the platform's
    :param now: when; what has ended by then is over
    """
    stored = settings.get(MAINTENANCE) or {}
    until = datetime.fromisoformat(stored["until"]) if stored.get("until") else None
    if not stored.get("active") or (until is not None and until <= now):
        return Maintenance(active=False)
    return Maintenance(active=True, message=stored.get("message"), until=until)


def is_feature_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> bool:
    """Tell whether a feature of the service is on.

    :param settings: the platform's
    :param feature: of ``FEATURES``
    :param now: when
    """
    paused = FEATURES[feature].off_in_maintenance and read_maintenance(settings, now=now).active
    return read_features(settings)[feature] and not paused


def ensure_feature_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> None:
    """Refuse what belongs to a feature that is off.

    :param settings: the platform's
    :param feature: of ``FEATURES``
    :param now: when
    :raises FeatureUnavailableError: it is switched off, or the platform is being worked on
    """
    maintenance = read_maintenance(settings, now=now)
    if FEATURES[feature].off_in_maintenance and maintenance.active:
        seconds = _RETRY_AFTER_SECONDS
        if maintenance.until is not None:
            left = int((maintenance.until - now).total_seconds())
            seconds = min(max(left, 1), _MAX_RETRY_AFTER_SECONDS)
        message = f" {maintenance.message}" if maintenance.message else ""
        raise FeatureUnavailableError(
            f"The platform is being worked on.{message}",
            retry_after_seconds=seconds,
        )
    if not read_features(settings)[feature]:
        raise FeatureUnavailableError(
            f"The feature {feature} is switched off for now.", retry_after_seconds=_RETRY_AFTER_SECONDS
        )
