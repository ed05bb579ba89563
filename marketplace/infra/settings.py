"""Typed settings from environment variables. An invalid value stops the process at start."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from marketplace.infra import texts
from marketplace.infra.encryption_keys import (
    derive_public_point,
    parse_data_keys,
    parse_key,
    parse_signing_secrets,
)
from marketplace.kernel.env_file import parse_variables
from marketplace.kernel.origins import AllowedOrigins, parse_origins

EMBEDDED_ENVIRONMENT_FILE = "stack.env"
MIN_KEY_LENGTH = 32
_SEVERITIES = ("SEV-1", "SEV-2", "SEV-3")


class SettingsError(Exception):
    """Variables are missing or invalid. The message names each variable and the fault."""


def _matching(pattern: str, fault: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(fault)
        return value

    return parse


def split_list(value: str) -> tuple[str, ...]:
    """Split a list at commas and white space."""
    return tuple(word for word in re.split(r"[,\s]+", value) if word)


def _parse_list(value: str) -> tuple[str, ...]:
    words = split_list(value)
    if not words:
        raise ValueError("must contain at least one value")
    return words


def _parse_networks(value: str) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(word)) for word in _parse_list(value))
    except ValueError as error:
        raise ValueError(f"must be IP addresses or networks such as 203.0.113.0/24: {error}") from error


def _url_of_scheme(*schemes: str) -> Callable[[str], str]:
    return _matching(
        rf"(?:{'|'.join(map(re.escape, schemes))})://\S+",
        f"must be a URL that starts with {schemes[0]}://",
    )


def _parse_http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/[^\s]*)?", value):
        raise ValueError("must be a URL that starts with http:// or https://")
    return value.rstrip("/")


def _parse_smtp_url(value: str) -> str:
    parts = urlsplit(value)
    try:
        usable = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid port
        usable = False
    if not usable or parts.path.strip("/") or parts.query or re.search(r"\s", value):
        raise ValueError(
            "must be smtp://user:password@host:port for STARTTLS, or smtps:// for TLS from the start"
        )
    return value


def _parse_service_account(value: str) -> str:
    try:
        account = orjson.loads(value)
    except orjson.JSONDecodeError:
        account = None
    needed = ("project_id", "client_email", "private_key", "token_uri")
    if not isinstance(account, dict) or not all(isinstance(account.get(name), str) for name in needed):
        raise ValueError(f"must be the JSON key of a service account with {', '.join(needed)}")
    return value


def _parse_email_addresses(value: str) -> tuple[str, ...]:
    mailboxes = _parse_list(value)
    if not all(re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", mailbox) for mailbox in mailboxes):
        raise ValueError("must be e-mail addresses separated by commas")
    # Other characters require SMTPUTF8, which many mail servers do not support.
    if not value.isascii():
        raise ValueError("must contain only ASCII characters; write international domains as xn--...")
    return mailboxes


def _one_of(*choices: str) -> Callable[[str], str]:
    return _matching("|".join(choices), f"must be one of {', '.join(choices)}")


def _integer_between(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"\d{1,9}", value) or not minimum <= int(value) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(value)

    return parse


def _parse_functions_key(value: str) -> str:
    if any(len(key) < MIN_KEY_LENGTH for key in _parse_list(value)):
        raise ValueError(f"must have at least {MIN_KEY_LENGTH} characters in each key")
    return value


def _parse_signing_secrets(value: str) -> str:
    parse_signing_secrets(value)
    return value


def _parse_email_domains(value: str) -> tuple[str, ...]:
    domains = tuple(domain.lower() for domain in _parse_list(value))
    if not all(re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", domain) for domain in domains):
        raise ValueError("must be domains such as mail.example, with international domains as xn--...")
    return domains


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
    """Declare a setting. Required settings must be set in production; other environments use the defaults."""
    return field(
        default=default, metadata={"doc": doc, "parse": parse, "secret": secret, "required": required}
    )


@dataclass(frozen=True)
class Settings:
    """All settings. The environment variable of a field is the field's name in upper case."""

    environment: str = _setting(
        "production",
        "The kind of deployment: `production`, `embedded` or `test`.",
        parse=_one_of("production", "embedded", "test"),
        required=True,
    )
    public_base_url: str = _setting(
        "http://127.0.0.1:8000",
        "The base URL of the API for clients.",
        parse=_parse_http_url,
        required=True,
    )
    database_url: str = _setting(
        "",
        "The URL of the database (PostgreSQL 18 or later), as postgresql://…",
        parse=_url_of_scheme("postgresql", "postgresql+psycopg2"),
        secret=True,
        required=True,
    )
    database_pool_size: int = _setting(
        2,
        "Number of connections that each process keeps open (in workers at least 5)."
        " The same number can open in addition under load.",
        parse=_integer_between(1, 100),
    )
    database_prepared_statements: str = _setting(
        "on",
        "Set to `off` behind a connection pooler in transaction mode."
        " The database role must then set the time zone and the time-outs.",
        parse=_one_of("on", "off"),
    )
    database_wait_scale: int = _setting(
        1,
        "The factor of the web processes' limits on waits for the database, for a slow machine or a distant database.",
        parse=_integer_between(1, 100),
    )
    redis_url: str = _setting(
        "",
        "The URL of a Redis-compatible server for the cache, rate limits and queues, as redis://…",
        parse=_url_of_scheme("redis", "rediss", "unix"),
        secret=True,
        required=True,
    )
    s3_endpoint_url: str = _setting(
        "", "The URL of the S3-compatible storage. Empty means the AWS endpoint.", parse=_parse_http_url
    )
    s3_region: str = _setting("us-east-1", "The region for signing S3 requests.")
    s3_access_key_id: str = _setting("", "The id of the S3 access key.", required=True)
    s3_secret_access_key: str = _setting("", "The secret of the S3 access key.", secret=True, required=True)
    s3_public_bucket: str = _setting(
        "marketplace-public", "The bucket for product images, with public read access."
    )
    s3_private_bucket: str = _setting(
        "marketplace-private", "The private bucket for student ids, evidence and exports."
    )
    s3_public_url: str = _setting(
        "",
        "The URL of the public bucket for browsers. Empty means PUBLIC_BASE_URL/media.",
        parse=_parse_http_url,
    )
    gateway_name: str = _setting(
        "gateway",
        "The name of the payment gateway in the signature header x-<name>-signature.",
        parse=_matching(
            r"[a-z][a-z0-9]{1,31}",
            "must be 2 to 32 lowercase letters and digits, and start with a letter",
        ),
    )
    gateway_url: str = _setting(
        "", "The base URL of the payment gateway's API.", parse=_parse_http_url, required=True
    )
    gateway_secret_key: str = _setting(
        "",
        "The secret key for calls to the payment gateway and for signatures of the gateway's webhooks.",
        secret=True,
        required=True,
    )
    gateway_fee_bearer: str = _setting(
        "platform", "The party that pays the gateway's fees.", parse=_one_of("platform", "customer")
    )
    gateway_timeout_seconds: int = _setting(
        10, "The time-out of calls to the payment gateway, in seconds.", parse=_integer_between(1, 30)
    )
    gateway_webhook_addresses: tuple[str, ...] = _setting(
        (),
        "IP addresses and networks that may send the gateway's webhooks. Empty means any address.",
        parse=_parse_networks,
    )
    messaging_verify_token: str = _setting(
        "", "The token with which the messaging provider verifies our webhook URL.", secret=True
    )
    messaging_app_secret: str = _setting(
        "", "The secret with which the messaging provider signs webhooks.", secret=True, required=True
    )
    messaging_url: str = _setting(
        "",
        "The base URL of the messaging provider's Cloud API with its version. Empty means no template messages.",
        parse=_parse_http_url,
    )
    messaging_access_token: str = _setting("", "The access token for MESSAGING_URL.", secret=True)
    messaging_phone_id: str = _setting("", "The id of the sender's phone number at the messaging provider.")
    vapid_private_key: str = _setting(
        "",
        "The private key of web push (P-256, 32 bytes in base64url). Empty means no web push.",
        parse=_matching(r"[A-Za-z0-9_-]{43}", "must be 32 bytes in base64url, which are 43 characters"),
        secret=True,
    )
    vapid_contact: str = _setting(
        "", "The address that push services contact, as mailto:… or https://…. Empty means MAIL_FROM."
    )
    web_push_url: str = _setting(
        "",
        "The base URL of a push service that need not be public, for development.",
        parse=_parse_http_url,
    )
    fcm_credentials: str = _setting(
        "",
        "The JSON key of the service account for Firebase Cloud Messaging. Empty means no native push.",
        parse=_parse_service_account,
        secret=True,
    )
    fcm_url: str = _setting(
        "https://fcm.googleapis.com", "The base URL of Firebase Cloud Messaging.", parse=_parse_http_url
    )
    mail_from: str = _setting(
        "",
        "The sender address of notifications by e-mail. Empty means no-reply@ with the host of PUBLIC_BASE_URL.",
        parse=lambda value: _parse_email_addresses(value)[0],
    )
    sms_price_kobo: int = _setting(
        400, "The price of a part of an SMS, in kobo.", parse=_integer_between(0, 100_000)
    )
    sms_daily_limit_naira: int = _setting(
        20_000,
        "The limit of the cost of SMS in a day, in naira. SMS wait once the limit is reached.",
        parse=_integer_between(0, 100_000_000),
    )
    client_base_url: str = _setting(
        "",
        "The URL of the client application, for links in messages. Empty means PUBLIC_BASE_URL.",
        parse=_parse_http_url,
    )
    identity_issuer: str = _setting("", "The required issuer (iss) of access tokens.", required=True)
    identity_audience: str = _setting("campus-marketplace", "The required audience (aud) of access tokens.")
    identity_algorithms: tuple[str, ...] = _setting(
        ("ES256",),
        "The accepted signature algorithms of access tokens: RS256, ES256, HS256.",
        parse=_parse_list,
    )
    identity_jwks_url: str = _setting(
        "",
        "The URL of the identity provider's public keys. Required for RS256 and ES256.",
        parse=_parse_http_url,
    )
    identity_shared_secret: str = _setting(
        "", "The secret of HS256 tokens, at least 32 characters. Required for HS256.", secret=True
    )
    identity_admin_url: str = _setting(
        "",
        "The base URL of the identity provider's administration. `/users/<id>` is added to delete an account.",
        parse=_parse_http_url,
    )
    identity_admin_key: str = _setting("", "The bearer key for IDENTITY_ADMIN_URL.", secret=True)
    ai_url: str = _setting(
        "",
        "The base URL of an OpenAI-compatible API for the moderation of listings. Empty means only the built-in rules.",
        parse=_parse_http_url,
    )
    ai_key: str = _setting("", "The API key for AI_URL.", secret=True)
    ai_moderation_model: str = _setting("omni-moderation-latest", "The moderation model for calls to AI_URL.")
    ai_timeout_seconds: int = _setting(
        10, "The time-out of calls to AI_URL, in seconds.", parse=_integer_between(1, 30)
    )
    assistant_url: str = _setting(
        "",
        "The base URL of an OpenAI-compatible API for the assistant, such as a hosted model or a local server.",
        parse=_parse_http_url,
    )
    assistant_key: str = _setting("", "The API key for ASSISTANT_URL.", secret=True)
    assistant_model: str = _setting("gpt-5-mini", "The model for calls to ASSISTANT_URL.")
    assistant_read_seconds: int = _setting(
        20,
        "The longest silence of ASSISTANT_URL within an answer, in seconds.",
        parse=_integer_between(1, 60),
    )
    assistant_daily_budget: int = _setting(
        200_000,
        "The tokens that a person can use in a day, of prompts and answers together.",
        parse=_integer_between(1_000, 100_000_000),
    )
    assistant_prompt_price: int = _setting(
        25,
        "The price of a million prompt tokens, in US cents. 0 for a server of your own.",
        parse=_integer_between(0, 1_000_000),
    )
    assistant_completion_price: int = _setting(
        200,
        "The price of a million tokens of answers, in US cents. 0 for a server of your own.",
        parse=_integer_between(0, 1_000_000),
    )
    assistant_pictures: str = _setting(
        "off", "Whether ASSISTANT_MODEL reads pictures.", parse=_one_of("on", "off")
    )
    alert_chat_url: str = _setting(
        "",
        "The incoming webhook of a chat such as Slack, for alerts. Empty means no chat.",
        parse=_parse_http_url,
        secret=True,
    )
    alert_chat_severity: str = _setting(
        "SEV-2", "The minimum severity of alerts in the chat.", parse=_one_of(*_SEVERITIES)
    )
    alert_email_to: tuple[str, ...] = _setting(
        (),
        "The e-mail addresses that receive alerts, separated by commas. Empty means no e-mail.",
        parse=_parse_email_addresses,
    )
    alert_email_severity: str = _setting(
        "SEV-3", "The minimum severity of alerts by e-mail.", parse=_one_of(*_SEVERITIES)
    )
    alert_email_from: str = _setting(
        "",
        "The sender address of alert e-mails. Empty means alerts@ with the host of PUBLIC_BASE_URL.",
        parse=lambda value: _parse_email_addresses(value)[0],
    )
    smtp_url: str = _setting(
        "",
        "The mail server for alerts and notifications, as smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465.",
        parse=_parse_smtp_url,
        secret=True,
    )
    mail_reply_domain: str = _setting(
        "",
        "The domain for replies to support e-mails, whose mail service calls /functions/v1/inbound-email. Empty means"
        " no replies by e-mail.",
    )
    sms_url: str = _setting(
        "", "The base URL of the SMS gateway's API (Termii's format).", parse=_parse_http_url, required=True
    )
    sms_api_key: str = _setting("", "The API key for SMS_URL.", secret=True, required=True)
    sms_sender_id: str = _setting(
        "Campus",
        "The sender that phones show for SMS, registered with the SMS gateway.",
        parse=_matching(r"[A-Za-z0-9 ]{3,11}", "must be 3 to 11 letters, digits and spaces"),
    )
    sms_channel: str = _setting(
        "dnd",
        "The route of SMS: `dnd` also reaches numbers on the do-not-disturb list, `generic` does not.",
        parse=_one_of("dnd", "generic"),
    )
    functions_key: str = _setting(
        "",
        "The bearer keys for /functions/v1/…, separated by commas, each at least 32 characters. All keys are valid.",
        parse=_parse_functions_key,
        secret=True,
    )
    functions_signing_secrets: str = _setting(
        "",
        "The Standard Webhooks secrets for /functions/v1/…, as v1,whsec_…, separated by spaces. All secrets are valid.",
        parse=_parse_signing_secrets,
        secret=True,
    )
    barred_email_domains: tuple[str, ...] = _setting(
        (),
        "The e-mail domains that cannot sign up, with their subdomains, separated by commas.",
        parse=_parse_email_domains,
    )
    delivery_pin_key: str = _setting(
        "",
        "The key for deriving delivery PINs and phone codes, at least 32 characters.",
        secret=True,
        required=True,
    )
    cursor_key: str = _setting(
        "", "The key for signing paging cursors, at least 32 characters.", secret=True, required=True
    )
    data_encryption_keys: str = _setting(
        "",
        "The keys of encrypted columns as id:base64,id:base64, each with 32 bytes."
        " The first key encrypts, and all keys decrypt.",
        parse=_parse_data_encryption_keys,
        secret=True,
        required=True,
    )
    blind_index_key: str = _setting(
        "",
        "The key for looking up encrypted columns, 32 bytes in base64. Never change this key.",
        parse=_parse_blind_index_key,
        secret=True,
        required=True,
    )
    trusted_proxy_hops: int = _setting(
        0,
        "The number of trusted proxies in front of the web process (X-Forwarded-For).",
        parse=_integer_between(0, 10),
    )
    cors_origins: tuple[str, ...] = _setting(
        (),
        "The browser origins that may call the API, such as https://shop.example or http://localhost:*.",
        parse=parse_origins,
    )
    rate_limit_scale: int = _setting(
        1,
        "The factor of all rate limits, for load tests. Must be 1 in production.",
        parse=_integer_between(1, 1_000_000),
    )
    log_level: str = _setting(
        "INFO", "The minimum level of logs.", parse=_one_of("DEBUG", "INFO", "WARNING", "ERROR")
    )
    sentry_dsn: str = _setting(
        "", "The DSN of the error tracker (Sentry). Empty means no error tracking.", secret=True
    )
    otlp_traces_url: str = _setting(
        "",
        "The URL of an OpenTelemetry collector, such as http://collector:4318/v1/traces. Empty means no traces.",
        parse=_parse_http_url,
    )
    trace_percent: int = _setting(
        10, "The percentage of requests and jobs with a trace.", parse=_integer_between(1, 100)
    )
    build_revision: str = _setting("unknown", "The source revision of this build.")
    scale_hook_url: str = _setting(
        "",
        "The URL that gets a POST with `queue` and `workers` when a queue needs a second worker. Empty means no hook.",
        parse=_parse_http_url,
    )
    probe_percent: int = _setting(
        100,
        "The time-outs and slow limits of the health probes in percent of the standard times.",
        parse=_integer_between(1, 100),
    )

    @cached_property
    def functions_keys(self) -> tuple[str, ...]:
        """The keys of FUNCTIONS_KEY."""
        return split_list(self.functions_key)

    @cached_property
    def functions_signing_keys(self) -> tuple[bytes, ...]:
        """The decoded secrets of FUNCTIONS_SIGNING_SECRETS."""
        return parse_signing_secrets(self.functions_signing_secrets)

    @cached_property
    def media_base_url(self) -> str:
        """The base URL of objects in the public bucket."""
        return self.s3_public_url or f"{self.public_base_url}/media"

    @cached_property
    def allowed_origins(self) -> AllowedOrigins:
        """The origins of CORS_ORIGINS."""
        return AllowedOrigins(self.cors_origins)

    @cached_property
    def alert_sender(self) -> str:
        """The sender address of alert e-mails."""
        return self.alert_email_from or f"alerts@{urlsplit(self.public_base_url).hostname}"

    @property
    def mail_sender(self) -> str:
        """The sender address of notifications by e-mail."""
        return self.mail_from or f"no-reply@{urlsplit(self.public_base_url).hostname}"

    @cached_property
    def vapid_public_key(self) -> str | None:
        """The public key of web push as an uncompressed point in base64url; none without web push."""
        return derive_public_point(self.vapid_private_key) if self.vapid_private_key else None

    @property
    def client_url(self) -> str:
        """The URL of the client application."""
        return self.client_base_url or self.public_base_url


def variable_name(field_name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return field_name.upper()


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings from environment variables.

    :param environ: the variables; none means the environment of this process
    :raises SettingsError: variables are missing or invalid; the message names each variable and the fault
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
            texts.SETTING_MISSING.format(variable=variable_name(item.name), description=item.metadata["doc"])
            for item in fields(Settings)
            if item.metadata["required"] and not getattr(settings, item.name)
        ]
        if settings.rate_limit_scale != 1:
            faults.append("RATE_LIMIT_SCALE must be 1 in production")
    faults += [
        f"{variable_name(name)} must have at least {MIN_KEY_LENGTH} characters"
        for name in ("delivery_pin_key", "cursor_key", "identity_shared_secret")
        if getattr(settings, name) and len(getattr(settings, name)) < MIN_KEY_LENGTH
    ]
    faults += [
        f"IDENTITY_ALGORITHMS must contain only RS256, ES256 and HS256, not {algorithm}"
        for algorithm in settings.identity_algorithms
        if algorithm not in ("RS256", "ES256", "HS256")
    ]
    data_keys = settings.data_encryption_keys
    index_key = settings.blind_index_key
    algorithms = set(settings.identity_algorithms)
    lacks_published_keys = settings.environment == "production" and not settings.identity_jwks_url
    contradictions = {
        "DATA_ENCRYPTION_KEYS and BLIND_INDEX_KEY must be set together": (bool(data_keys) != bool(index_key)),
        "BLIND_INDEX_KEY must differ from the keys in DATA_ENCRYPTION_KEYS": (
            data_keys and index_key and parse_key(index_key) in parse_data_keys(data_keys).values()
        ),
        texts.FUNCTIONS_KEY_MISSING: (
            settings.environment == "production"
            and not settings.functions_key
            and not settings.functions_signing_secrets
        ),
        texts.SMTP_URL_MISSING: settings.alert_email_to and not settings.smtp_url,
        texts.IDENTITY_SHARED_SECRET_MISSING: "HS256" in algorithms and not settings.identity_shared_secret,
        texts.IDENTITY_JWKS_URL_MISSING: lacks_published_keys and {"RS256", "ES256"} & algorithms,
    }
    return faults + [fault for fault, is_given in contradictions.items() if is_given]


def read_embedded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Read the variables that the embedded stack wrote for commands in another shell.

    :param environ: the current variables; ``DATA_DIR`` (default ``.data``) is the stack's directory
    :return: the variables of ``stack.env``; empty if ``DATABASE_URL`` is set or the file is missing
    """
    path = Path(environ.get("DATA_DIR") or ".data") / EMBEDDED_ENVIRONMENT_FILE
    if environ.get("DATABASE_URL") or not path.is_file():
        return {}
    return parse_variables(path.read_text(encoding="utf-8"))
