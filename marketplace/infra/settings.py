"""Settings: one typed object, read from the environment at start. A bad value is refused there and then."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from marketplace.infra.encryption_keys import parse_data_keys, parse_key
from marketplace.kernel.env_file import parse_variables

EMBEDDED_ENVIRONMENT_FILE = "stack.env"
_SEVERITIES = ("SEV-1", "SEV-2", "SEV-3")


class SettingsError(Exception):
    """One or more variables are missing or have a value that can't be used; the message names each."""


def _matching(pattern: str, fault: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(fault)
        return value

    return parse


def _parse_list(value: str) -> tuple[str, ...]:
    words = tuple(word for word in re.split(r"[,\s]+", value) if word)
    if not words:
        raise ValueError("must name at least one")
    return words


def _parse_origins(value: str) -> tuple[str, ...]:
    origins = _parse_list(value)
    # Browsers send an origin without a path, not even '/', and in lower case: any other would never match.
    if not all(re.fullmatch(r"https?://[^\s/?#A-Z*]+", origin) for origin in origins):
        raise ValueError("must be origins such as https://shop.example: no path, no wildcard, lower case")
    return origins


def _parse_networks(value: str) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(word)) for word in _parse_list(value))
    except ValueError as error:
        raise ValueError(f"must be addresses or networks such as 203.0.113.0/24: {error}") from error


def _url_of_scheme(*schemes: str) -> Callable[[str], str]:
    return _matching(
        rf"(?:{'|'.join(map(re.escape, schemes))})://\S+",
        f"must be an address that starts with {schemes[0]}://",
    )


def _parse_http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/[^\s]*)?", value):
        raise ValueError("must be an address that starts with http:// or https://")
    return value.rstrip("/")


def _parse_smtp_url(value: str) -> str:
    parts = urlsplit(value)
    try:
        usable = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is none
        usable = False
    if not usable or parts.path.strip("/") or parts.query or re.search(r"\s", value):
        raise ValueError("must be smtp://user:password@host:port, or smtps:// for TLS from the start")
    return value


def _parse_email_addresses(value: str) -> tuple[str, ...]:
    mailboxes = _parse_list(value)
    if not all(re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", mailbox) for mailbox in mailboxes):
        raise ValueError("must be addresses of e-mail, with commas between them")
    # Others take a mail server that speaks SMTPUTF8, of which many don't.
    if not value.isascii():
        raise ValueError("must be of ASCII alone; a domain with other letters is written as xn--...")
    return mailboxes


def _one_of(*choices: str) -> Callable[[str], str]:
    return _matching("|".join(choices), f"must be one of {', '.join(choices)}")


def _integer_between(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"\d{1,9}", value) or not minimum <= int(value) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(value)

    return parse


def _parse_data_encryption_keys(value: str) -> str:
    parse_data_keys(value)
    return value


def _parse_blind_index_key(value: str) -> str:
    parse_key(value)
    return value


def _setting(
    default: Any,
    doc: str,
    *,
    parse: Callable[[str], Any] = str,
    secret: bool = False,
    required: bool = False,
) -> Any:
    """Declare a setting. Required ones must be given in production; elsewhere their default serves."""
    return field(
        default=default, metadata={"doc": doc, "parse": parse, "secret": secret, "required": required}
    )


@dataclass(frozen=True)
class Settings:
    """All settings. A field's variable is its name in capitals."""

    environment: str = _setting(
        "production", "What this runs as.", parse=_one_of("production", "embedded", "test"), required=True
    )
    public_base_url: str = _setting(
        "http://127.0.0.1:8000",
        "The address under which clients reach the API.",
        parse=_parse_http_url,
        required=True,
    )
    database_url: str = _setting(
        "",
        "PostgreSQL 18 or later, as postgresql://…",
        parse=_url_of_scheme("postgresql", "postgresql+psycopg2"),
        secret=True,
        required=True,
    )
    database_pool_size: int = _setting(
        2,
        "Connections that one web process keeps; under load it opens as many again.",
        parse=_integer_between(1, 100),
    )
    database_prepared_statements: str = _setting(
        "on",
        "`off` behind a connection pooler in transaction mode; time zone and time-outs then come from the role.",
        parse=_one_of("on", "off"),
    )
    redis_url: str = _setting(
        "",
        "A Redis-compatible server for cache, limits and queues, as redis://…",
        parse=_url_of_scheme("redis", "rediss", "unix"),
        secret=True,
        required=True,
    )
    s3_endpoint_url: str = _setting(
        "", "S3-compatible storage; empty means AWS's own endpoint.", parse=_parse_http_url
    )
    s3_region: str = _setting("us-east-1", "The region that S3 requests are signed for.")
    s3_access_key_id: str = _setting("", "The access key's id for S3.", required=True)
    s3_secret_access_key: str = _setting("", "The access key's secret for S3.", secret=True, required=True)
    s3_public_bucket: str = _setting("marketplace-public", "The bucket of product images, readable by all.")
    s3_private_bucket: str = _setting(
        "marketplace-private", "The bucket of student ids, evidence and exports."
    )
    s3_public_url: str = _setting(
        "",
        "The address under which browsers read the public bucket; empty means PUBLIC_BASE_URL/media.",
        parse=_parse_http_url,
    )
    gateway_name: str = _setting(
        "gateway",
        "The payment gateway's name, as in its signature header x-<name>-signature.",
        parse=_matching(
            r"[a-z][a-z0-9]{1,31}",
            "must be 2 to 32 lowercase letters and digits: it becomes part of a header's name",
        ),
    )
    gateway_url: str = _setting("", "The payment gateway's API.", parse=_parse_http_url, required=True)
    gateway_secret_key: str = _setting(
        "",
        "The gateway's secret key: authenticates our calls and signs its webhooks.",
        secret=True,
        required=True,
    )
    gateway_fee_bearer: str = _setting(
        "platform", "Who bears the gateway's fees.", parse=_one_of("platform", "customer")
    )
    gateway_timeout_seconds: int = _setting(
        10, "How long a call to the gateway may take.", parse=_integer_between(1, 30)
    )
    gateway_webhook_addresses: tuple[str, ...] = _setting(
        (),
        "Networks that the gateway's webhooks come from; others are refused. Empty means from anywhere.",
        parse=_parse_networks,
    )
    messaging_verify_token: str = _setting(
        "", "What the messaging provider shows when it verifies our webhook's address.", secret=True
    )
    messaging_app_secret: str = _setting(
        "", "The secret that the messaging provider signs its webhooks with.", secret=True, required=True
    )
    identity_issuer: str = _setting("", "The issuer (iss) that access tokens must name.", required=True)
    identity_audience: str = _setting(
        "campus-marketplace", "The audience (aud) that access tokens must name."
    )
    identity_algorithms: tuple[str, ...] = _setting(
        ("ES256",), "The signature algorithms accepted, of RS256, ES256, HS256.", parse=_parse_list
    )
    identity_jwks_url: str = _setting(
        "", "Where the identity provider publishes its keys (RS256, ES256).", parse=_parse_http_url
    )
    identity_shared_secret: str = _setting("", "The secret of HS256 tokens, at least 32 bytes.", secret=True)
    ai_url: str = _setting(
        "",
        "An OpenAI-compatible API that screens listings; empty means the rules alone.",
        parse=_parse_http_url,
    )
    ai_key: str = _setting("", "The key of that API.", secret=True)
    ai_moderation_model: str = _setting("omni-moderation-latest", "The model that moderation asks for.")
    ai_timeout_seconds: int = _setting(
        10, "How long a call to that API may take.", parse=_integer_between(1, 30)
    )
    alert_chat_url: str = _setting(
        "",
        "The incoming webhook of the chat that alerts are posted to, as Slack's; empty means none.",
        parse=_parse_http_url,
        secret=True,
    )
    alert_chat_severity: str = _setting(
        "SEV-2", "The least severity that is posted to the chat.", parse=_one_of(*_SEVERITIES)
    )
    alert_email_to: tuple[str, ...] = _setting(
        (), "Who gets alerts by e-mail; empty means nobody.", parse=_parse_email_addresses
    )
    alert_email_severity: str = _setting(
        "SEV-3", "The least severity that is sent by e-mail.", parse=_one_of(*_SEVERITIES)
    )
    alert_email_from: str = _setting(
        "",
        "The sender of these e-mails; empty means alerts@ the host of PUBLIC_BASE_URL.",
        parse=lambda value: _parse_email_addresses(value)[0],
    )
    smtp_url: str = _setting(
        "",
        "The mail server, as smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465.",
        parse=_parse_smtp_url,
        secret=True,
    )
    functions_key: str = _setting("", "The bearer key of /functions/v1/….", secret=True)
    delivery_pin_key: str = _setting(
        "", "The key that delivery PINs are derived with, at least 32 characters.", secret=True, required=True
    )
    cursor_key: str = _setting(
        "", "The key that signs paging cursors, at least 32 characters.", secret=True, required=True
    )
    data_encryption_keys: str = _setting(
        "",
        "Keys of encrypted columns as id:base64,id:base64, each 32 bytes; the first writes, all read.",
        parse=_parse_data_encryption_keys,
        secret=True,
        required=True,
    )
    blind_index_key: str = _setting(
        "",
        "The key that encrypted columns are looked up with, 32 bytes in base64. It never changes.",
        parse=_parse_blind_index_key,
        secret=True,
        required=True,
    )
    trusted_proxy_hops: int = _setting(
        0,
        "How many proxies of ours stand before the web process (X-Forwarded-For).",
        parse=_integer_between(0, 10),
    )
    cors_origins: tuple[str, ...] = _setting(
        (), "Origins of browsers that may call the API.", parse=_parse_origins
    )
    rate_limit_scale: int = _setting(
        1,
        "Multiplies all rate limits, for load tests; production takes 1 alone.",
        parse=_integer_between(1, 1_000_000),
    )
    log_level: str = _setting(
        "INFO", "The least level that is logged.", parse=_one_of("DEBUG", "INFO", "WARNING", "ERROR")
    )
    sentry_dsn: str = _setting("", "Where errors are reported; empty means nowhere.", secret=True)
    build_revision: str = _setting("unknown", "The revision that this build was made from.")

    @cached_property
    def media_base_url(self) -> str:
        """Give the address under which the public bucket's objects are read."""
        return self.s3_public_url or f"{self.public_base_url}/media"

    @cached_property
    def alert_sender(self) -> str:
        """Give the address that alerts are sent from by e-mail."""
        return self.alert_email_from or f"alerts@{urlsplit(self.public_base_url).hostname}"


def variable_name(field_name: str) -> str:
    """Give the environment variable of a field of Settings."""
    return field_name.upper()


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment.

    :param environ: variables; none means the process's own
    :return: the settings
    :raises SettingsError: the message names every variable that is missing or wrong, and what is wrong
    """
    source = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    faults: list[str] = []
    for item in fields(Settings):
        raw_value = source.get(variable_name(item.name))
        try:
            if raw_value:
                values[item.name] = item.metadata["parse"](raw_value)
        except ValueError as error:
            faults.append(f"{variable_name(item.name)} {error}")
    settings = Settings(**values)
    faults = faults or _list_faults(settings)
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def _list_faults(settings: Settings) -> list[str]:
    faults = []
    if settings.environment == "production":
        faults += [
            f"{variable_name(item.name)} is missing: {item.metadata['doc']}"
            for item in fields(Settings)
            if item.metadata["required"] and not getattr(settings, item.name)
        ]
        if settings.rate_limit_scale != 1:
            faults.append("RATE_LIMIT_SCALE must be 1 in production")
    faults += [
        f"{variable_name(name)} must have at least 32 characters"
        for name in ("delivery_pin_key", "cursor_key", "identity_shared_secret", "functions_key")
        if getattr(settings, name) and len(getattr(settings, name)) < 32
    ]
    faults += [
        f"IDENTITY_ALGORITHMS knows RS256, ES256 and HS256, not {algorithm}"
        for algorithm in settings.identity_algorithms
        if algorithm not in ("RS256", "ES256", "HS256")
    ]
    data_keys = settings.data_encryption_keys
    index_key = settings.blind_index_key
    algorithms = set(settings.identity_algorithms)
    lacks_published_keys = settings.environment == "production" and not settings.identity_jwks_url
    contradictions = {
        "DATA_ENCRYPTION_KEYS and BLIND_INDEX_KEY are set together or not at all": (
            bool(data_keys) != bool(index_key)
        ),
        "BLIND_INDEX_KEY must differ from the keys of DATA_ENCRYPTION_KEYS": (
            data_keys and index_key and parse_key(index_key) in parse_data_keys(data_keys).values()
        ),
        "SMTP_URL is missing: ALERT_EMAIL_TO names somebody": (
            settings.alert_email_to and not settings.smtp_url
        ),
        "IDENTITY_SHARED_SECRET is missing: IDENTITY_ALGORITHMS names HS256": (
            "HS256" in algorithms and not settings.identity_shared_secret
        ),
        "IDENTITY_JWKS_URL is missing: IDENTITY_ALGORITHMS names an algorithm with public keys": (
            lacks_published_keys and {"RS256", "ES256"} & algorithms
        ),
    }
    return faults + [fault for fault, is_given in contradictions.items() if is_given]


def read_embedded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Read what the embedded stack wrote for commands in another shell.

    :param environ: variables; ``DATA_DIR`` (default ``.data``) tells where the stack keeps its state
    :return: the variables of its ``stack.env``; none when ``DATABASE_URL`` is set or there is no such file
    """
    path = Path(environ.get("DATA_DIR") or ".data") / EMBEDDED_ENVIRONMENT_FILE
    if environ.get("DATABASE_URL") or not path.is_file():
        return {}
    return parse_variables(path.read_text(encoding="utf-8"))
