"""The probes of the service's dependencies, with time-outs and the rules for their status."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import select

from marketplace.health.probes import (
    DEGRADED,
    DOWN,
    OK,
    OPERATIONAL,
    UNAVAILABLE,
    Probe,
    ProbeFailedError,
)
from marketplace.identity.models import AdminRole
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.platform.models import PlatformSetting
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.client import GatewayKeyRefusedError
from marketplace.providers.gateway.records import GatewayRecords
from marketplace.providers.identity import TokenVerifier
from marketplace.providers.language_model import LanguageModel
from marketplace.providers.messaging.sms import SmsGateway
from marketplace.providers.storage import ObjectStorage

_TEST_KEY_PREFIX = "sk_test_"


@dataclass(frozen=True)
class Dependencies:
    """The settings, stores and providers that the probes check."""

    settings: Settings
    database: Database
    cache: Cache
    gateway: GatewayRecords
    storage: ObjectStorage
    language_model: LanguageModel | None
    sms: SmsGateway
    tokens: TokenVerifier


def diagnostic_probes(given: Dependencies) -> list[Probe]:
    """Build the seven probes of the diagnostic, with the time-outs of the interface specification."""
    return [
        _store_probe(given, "database", "PostgreSQL", partial(_check_database, given.database)),
        _provider_probe(given, "gateway", "Payment gateway", partial(_check_gateway, given), seconds=5.0),
        _provider_probe(given, "object_storage", "Object storage", partial(_check_storage, given)),
        _provider_probe(given, "ai_model", "Language model", partial(_check_model, given), seconds=5.0),
        _provider_probe(given, "messaging", "Messaging provider", partial(_check_messaging, given.settings)),
        _provider_probe(given, "sms_gateway", "SMS gateway", partial(_check_sms, given)),
        _store_probe(given, "cache", "Cache", given.cache.ping),
    ]


def readiness_probes(given: Dependencies) -> list[Probe]:
    """Build the seven probes of the readiness with all dependencies, in the order of its keys."""
    diagnostic = {probe.name: probe for probe in diagnostic_probes(given)}
    return [
        diagnostic["database"],
        _provider_probe(given, "auth", "Identity provider", partial(_check_tokens, given.tokens)),
        diagnostic["cache"],
        diagnostic["gateway"],
        diagnostic["ai_model"],
        diagnostic["object_storage"],
        _store_probe(given, "feature_flags", "Platform settings", partial(_check_settings, given.database)),
    ]


def _store_probe(
    given: Dependencies, name: str, service: str, check: Callable[[], Mapping[str, Any] | None]
) -> Probe:
    return Probe(name, service, OK, check, _scaled(given, 4.0), _scaled(given, 1.2))


def _provider_probe(
    given: Dependencies,
    name: str,
    service: str,
    check: Callable[[], Mapping[str, Any] | None],
    *,
    seconds: float = 4.0,
) -> Probe:
    return Probe(name, service, OPERATIONAL, check, _scaled(given, seconds), _scaled(given, 1.5))


def _scaled(given: Dependencies, seconds: float) -> float:
    return seconds * given.settings.probe_percent / 100


def _check_database(database: Database) -> None:
    with database.reading() as session:
        if session.scalar(select(AdminRole.role).limit(1)) is None:
            raise ProbeFailedError(DOWN, reason="no_rows")


def _check_settings(database: Database) -> None:
    with database.reading() as session:
        if session.scalar(select(PlatformSetting.key).limit(1)) is None:
            raise ProbeFailedError(DOWN, reason="no_rows")


def _check_gateway(given: Dependencies) -> Mapping[str, Any]:
    key = given.settings.gateway_secret_key
    if not key:
        raise ProbeFailedError(UNAVAILABLE, reason="not_configured")
    try:
        given.gateway.fetch_balance()
    except GatewayKeyRefusedError as error:
        raise ProbeFailedError(UNAVAILABLE, reason="refused") from error
    if key.startswith(_TEST_KEY_PREFIX):
        return {"status": DEGRADED, "reason": "test_mode", "testMode": True}
    return {"testMode": False}


def _check_storage(given: Dependencies) -> None:
    for bucket in (given.settings.s3_private_bucket, given.settings.s3_public_bucket):
        given.storage.check_bucket(bucket)


def _check_model(given: Dependencies) -> None:
    if given.language_model is None:
        raise ProbeFailedError(UNAVAILABLE, reason="not_configured")
    try:
        given.language_model.check_model()
    except ProviderRefusedError as error:
        raise ProbeFailedError(UNAVAILABLE, reason="refused") from error


def _check_messaging(settings: Settings) -> Mapping[str, Any]:
    """Check only the configuration, so a configured provider is never ``operational``."""
    configured = bool(
        settings.messaging_url and settings.messaging_access_token and settings.messaging_phone_id
    )
    if not configured:
        raise ProbeFailedError(UNAVAILABLE, credentialsConfigured=False)
    return {"status": DEGRADED, "reason": "not_probed", "credentialsConfigured": True}


def _check_sms(given: Dependencies) -> None:
    try:
        given.sms.fetch_balance()
    except ProviderRefusedError as error:
        raise ProbeFailedError(UNAVAILABLE, reason="refused") from error


def _check_tokens(tokens: TokenVerifier) -> None:
    if not tokens.has_usable_key():
        raise ProbeFailedError(DOWN, reason="no_usable_key")
