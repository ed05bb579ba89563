"""Feature flags and maintenance. Requests for a feature that is off are refused with status 503.

Flags unknown to the service are stored and shown to client applications.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.platform import texts

MAINTENANCE = "maintenance"
_FEATURE_PREFIX = "feature:"
# The Retry-After of clients if the end of the maintenance is unknown.
_RETRY_AFTER_SECONDS = 300
_MAX_RETRY_AFTER_SECONDS = 3600

CHECKOUT = "checkout"
EARLY_WITHDRAWALS = "early_withdrawals"
WALLET_CASH_OUTS = "wallet_cash_outs"
SCHEDULED_PAYOUTS = "scheduled_payouts"
ASSISTANT = "assistant"


@dataclass(frozen=True)
class Feature:
    """A feature that officers can switch off. With ``off_in_maintenance``, maintenance switches the feature off too."""

    meaning: str
    off_in_maintenance: bool = False


FEATURES: dict[str, Feature] = {
    CHECKOUT: Feature("Buyers place orders.", off_in_maintenance=True),
    EARLY_WITHDRAWALS: Feature(
        "Vendors request a payout of the balance before the next batch.", off_in_maintenance=True
    ),
    WALLET_CASH_OUTS: Feature("Buyers withdraw wallet balances to bank accounts.", off_in_maintenance=True),
    SCHEDULED_PAYOUTS: Feature("The schedule stages batches of payouts."),
    ASSISTANT: Feature("The assistant calls the language model."),
}


@dataclass(frozen=True)
class Maintenance:
    """The state of maintenance. ``until`` is the automatic end, if officers set a time."""

    active: bool
    message: str | None = None
    until: datetime | None = None


class FeatureUnavailableError(ServiceUnavailableError):
    """The feature is switched off, or the platform is under maintenance."""

    reason = "feature-unavailable"


def feature_setting_key(key: str) -> str:
    """Return the key of the platform setting that stores a flag."""
    return f"{_FEATURE_PREFIX}{key}"


def read_features(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Return the state of all features of the service and of all other flags.

    :param settings: the platform's settings
    """
    return dict.fromkeys(FEATURES, True) | {
        name.removeprefix(_FEATURE_PREFIX): bool(value)
        for name, value in settings.items()
        if name.startswith(_FEATURE_PREFIX)
    }


def read_maintenance(settings: Mapping[str, Any], *, now: datetime) -> Maintenance:
    """Return the state of maintenance.

    :param settings: the platform's settings
    :param now: maintenance ends automatically at ``until``
    """
    stored = settings.get(MAINTENANCE) or {}
    until = datetime.fromisoformat(stored["until"]) if stored.get("until") else None
    if not stored.get("active") or (until is not None and until <= now):
        return Maintenance(active=False)
    return Maintenance(active=True, message=stored.get("message"), until=until)


def is_feature_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> bool:
    """Return whether a feature of the service is on and not paused by maintenance.

    :param settings: the platform's settings
    :param feature: one of ``FEATURES``
    """
    paused = FEATURES[feature].off_in_maintenance and read_maintenance(settings, now=now).active
    return read_features(settings)[feature] and not paused


def ensure_feature_on(settings: Mapping[str, Any], feature: str, *, now: datetime) -> None:
    """Refuse a request if its feature is off.

    :param settings: the platform's settings
    :param feature: one of ``FEATURES``
    :raises FeatureUnavailableError: the feature is switched off, or the platform is under maintenance
    """
    maintenance = read_maintenance(settings, now=now)
    if FEATURES[feature].off_in_maintenance and maintenance.active:
        seconds = _RETRY_AFTER_SECONDS
        if maintenance.until is not None:
            left = int((maintenance.until - now).total_seconds())
            seconds = min(max(left, 1), _MAX_RETRY_AFTER_SECONDS)
        raise FeatureUnavailableError(
            texts.MAINTENANCE_WITH_MESSAGE.format(message=maintenance.message)
            if maintenance.message
            else texts.MAINTENANCE,
            retry_after_seconds=seconds,
        )
    if not read_features(settings)[feature]:
        raise FeatureUnavailableError(
            texts.FEATURE_OFF.format(feature=feature), retry_after_seconds=_RETRY_AFTER_SECONDS
        )
