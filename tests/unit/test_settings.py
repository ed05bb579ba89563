"""Settings: refused values with messages, and the variables that commands read from the embedded stack's file."""

import base64
from dataclasses import fields
from pathlib import Path

import pytest

from marketplace.infra.settings import (
    Settings,
    SettingsError,
    load_settings,
    read_embedded_environment,
    variable_name,
)
from tests.support.encryption_keys import DATA_KEY, KEY_VARIABLES

LONG = "of-the-tests-only-0123456789abcdef"
PRODUCTION = {
    "ENVIRONMENT": "production",
    "PUBLIC_BASE_URL": "https://market.example",
    "DATABASE_URL": "postgresql://market@database/market",
    "REDIS_URL": "rediss://cache:6379/0",
    "S3_ACCESS_KEY_ID": "id",
    "S3_SECRET_ACCESS_KEY": "secret",
    "GATEWAY_URL": "https://gateway.example",
    "GATEWAY_SECRET_KEY": "sk_live_of_the_tests_only",
    "SMS_URL": "https://sms.example",
    "SMS_API_KEY": "of-the-tests-only-sms",
    "MESSAGING_APP_SECRET": "of-the-tests-only",
    "IDENTITY_ISSUER": "https://identity.example/",
    "IDENTITY_JWKS_URL": "https://identity.example/keys",
    "DELIVERY_PIN_KEY": LONG,
    "CURSOR_KEY": LONG[::-1],
    "FUNCTIONS_KEY": f"{LONG},{LONG[::-1]}",
    **KEY_VARIABLES,
}
BAD = [
    ("SMS_URL", "sms.example", "must be a URL"),
    ("SMS_SENDER_ID", "Campus Market", "must be 3 to 11 letters"),
    ("SMS_CHANNEL", "voice", "must be one of dnd, generic"),
    ("GATEWAY_WEBHOOK_ADDRESSES", ",", "must be IP addresses or networks"),
    ("GATEWAY_WEBHOOK_ADDRESSES", "gateway.example", "does not appear to be an IPv4 or IPv6 network"),
    ("GATEWAY_WEBHOOK_ADDRESSES", "203.0.113.7/24", "has host bits set"),
    ("ENVIRONMENT", "staging", "must be one of production, embedded, test"),
    ("PUBLIC_BASE_URL", "market.example", "must be a URL"),
    ("PUBLIC_BASE_URL", "https://market.example/a b", "must be a URL"),
    ("DATABASE_URL", "mysql://market@database/market", "must be a URL that starts with postgresql://"),
    ("DATABASE_URL", "postgresql:market@database", "must be a URL that starts with postgresql://"),
    ("DATABASE_POOL_SIZE", "0", "must be a whole number from 1 to 100"),
    ("DATABASE_POOL_SIZE", "101", "must be a whole number from 1 to 100"),
    ("DATABASE_POOL_SIZE", "2.5", "must be a whole number from 1 to 100"),
    ("REDIS_URL", "cache:6379", "must be a URL that starts with redis://"),
    ("S3_ENDPOINT_URL", "s3.example", "must be a URL"),
    ("S3_PUBLIC_URL", "//media.example", "must be a URL"),
    ("GATEWAY_NAME", "Pay-Stuff", "must be 2 to 32 lowercase letters and digits"),
    ("GATEWAY_URL", "ftp://gateway.example", "must be a URL"),
    ("GATEWAY_FEE_BEARER", "nobody", "must be one of platform, customer"),
    ("GATEWAY_TIMEOUT_SECONDS", "31", "must be a whole number from 1 to 30"),
    ("IDENTITY_ALGORITHMS", "ES256,none", "must contain only RS256, ES256 and HS256, not none"),
    ("IDENTITY_ALGORITHMS", " , ", "must contain at least one value"),
    ("IDENTITY_JWKS_URL", "identity.example/keys", "must be a URL"),
    ("IDENTITY_SHARED_SECRET", "short", "must have at least 32 characters"),
    ("FUNCTIONS_KEY", "short", "must have at least 32 characters"),
    ("FUNCTIONS_KEY", f"{'k' * 32},short", "must have at least 32 characters in each key"),
    ("FUNCTIONS_SIGNING_SECRETS", "whsec_short", "must be whsec_ and 24 to 64 bytes in base64"),
    ("FUNCTIONS_SIGNING_SECRETS", DATA_KEY, "must be whsec_ and 24 to 64 bytes in base64"),
    ("FUNCTIONS_SIGNING_SECRETS", f"v1,whsec_{DATA_KEY} whsec_*", "must be whsec_ and 24 to 64 bytes"),
    ("BARRED_EMAIL_DOMAINS", "mail.example @spam", "must be domains such as mail.example"),
    ("DELIVERY_PIN_KEY", "x" * 31, "must have at least 32 characters"),
    ("CURSOR_KEY", "short", "must have at least 32 characters"),
    ("DATA_ENCRYPTION_KEYS", DATA_KEY, "must be id:base64 pairs separated by commas"),
    ("DATA_ENCRYPTION_KEYS", "k1:short", "has an invalid key k1, which must be 32 bytes in base64"),
    ("DATA_ENCRYPTION_KEYS", f"k1:{DATA_KEY},k1:{DATA_KEY}", "must not contain the id k1 twice"),
    ("BLIND_INDEX_KEY", "short", "must be 32 bytes in base64"),
    ("BLIND_INDEX_KEY", DATA_KEY, "must differ from the keys in DATA_ENCRYPTION_KEYS"),
    ("TRUSTED_PROXY_HOPS", "-1", "must be a whole number from 0 to 10"),
    ("CORS_ORIGINS", "https://shop.example,*", "must be origins"),
    ("CORS_ORIGINS", "https://shop.example/", "must be origins"),
    ("CORS_ORIGINS", "https://shop.example:*", "* only as the port of localhost"),
    ("RATE_LIMIT_SCALE", "0", "must be a whole number from 1 to 1000000"),
    ("RATE_LIMIT_SCALE", "2", "must be 1 in production"),
    ("ALERT_CHAT_URL", "chat.example/hook", "must be a URL"),
    ("ALERT_CHAT_SEVERITY", "sev-1", "must be one of SEV-1, SEV-2, SEV-3"),
    ("ALERT_EMAIL_SEVERITY", "SEV-4", "must be one of SEV-1, SEV-2, SEV-3"),
    ("ALERT_EMAIL_TO", "night", "must be e-mail addresses"),
    ("ALERT_EMAIL_TO", "Night <night@ops.example>", "must be e-mail addresses"),
    ("ALERT_EMAIL_FROM", "alerts@a@b", "must be e-mail addresses"),
    ("SMTP_URL", "mail.example:587", "must be smtp://"),
    ("SMTP_URL", "http://mail.example", "must be smtp://"),
    ("SMTP_URL", "smtp://user:secret@:587", "must be smtp://"),
    ("SMTP_URL", "smtp://user:secret@mail.example:many", "must be smtp://"),
    ("SMTP_URL", "smtp://user:secret@mail.example/queue", "must be smtp://"),
    ("LOG_LEVEL", "debug", "must be one of DEBUG, INFO, WARNING, ERROR"),
]


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(environ)
    return str(refused.value)


@pytest.mark.parametrize(("name", "value", "reason"), BAD, ids=[f"{name}={value}" for name, value, _ in BAD])
def test_invalid_value_is_refused_by_name_and_not_repeated(name: str, value: str, reason: str) -> None:
    message = refusal(PRODUCTION | {name: value})

    assert message.startswith(name)
    assert reason in message
    assert "\n" not in message
    assert LONG not in message
    if name in {variable_name(item.name) for item in fields(Settings) if item.metadata["secret"]}:
        assert value not in message.removeprefix(name)


def test_all_invalid_settings_are_reported_at_once() -> None:
    message = refusal(PRODUCTION | {"LOG_LEVEL": "LOUD", "DATABASE_POOL_SIZE": "many", "GATEWAY_NAME": "!"})

    assert [line.split()[0] for line in message.splitlines()] == [
        "DATABASE_POOL_SIZE",
        "GATEWAY_NAME",
        "LOG_LEVEL",
    ]


REQUIRED = [
    variable_name(item.name)
    for item in fields(Settings)
    if item.metadata["required"] and not item.default  # the others have a default
]


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "missing"])
def test_production_requires_settings_without_default(name: str, empty: bool) -> None:
    given = {key: value for key, value in PRODUCTION.items() if key != name} | ({name: ""} if empty else {})

    assert refusal(given).startswith(f"{name} is missing. Set this variable: ")


def test_environment_defaults_to_production() -> None:
    assert load_settings(
        {key: PRODUCTION[key] for key in PRODUCTION if key != "ENVIRONMENT"}
    ).environment == ("production")
    assert len(refusal({}).splitlines()) > 5


def test_production_requires_a_functions_key_or_a_signing_secret() -> None:
    without = {key: value for key, value in PRODUCTION.items() if key != "FUNCTIONS_KEY"}
    assert refusal(without).startswith("FUNCTIONS_KEY is missing")

    signed = load_settings(without | {"FUNCTIONS_SIGNING_SECRETS": f"v1,whsec_{DATA_KEY}|whsec_{DATA_KEY}"})

    assert signed.functions_keys == ()
    assert signed.functions_signing_keys == (base64.b64decode(DATA_KEY),) * 2
    assert load_settings(PRODUCTION).functions_keys == (LONG, LONG[::-1])


def test_production_requires_identity_keys_or_a_shared_secret() -> None:
    without = {key: value for key, value in PRODUCTION.items() if key != "IDENTITY_JWKS_URL"}
    assert refusal(without).startswith("IDENTITY_JWKS_URL is missing")

    shared = without | {"IDENTITY_ALGORITHMS": "HS256"}
    assert refusal(shared) == (
        "IDENTITY_SHARED_SECRET is missing. Set it, or remove HS256 from IDENTITY_ALGORITHMS."
    )
    assert load_settings(shared | {"IDENTITY_SHARED_SECRET": LONG}).identity_algorithms == ("HS256",)


def test_alerts_by_e_mail_require_a_mail_server() -> None:
    to = PRODUCTION | {"ALERT_EMAIL_TO": "night@ops.example, finance@ops.example"}
    assert refusal(to) == "SMTP_URL is missing. Set it, or leave ALERT_EMAIL_TO empty."

    for name in ("ALERT_EMAIL_TO", "ALERT_EMAIL_FROM"):
        for address in ("nächte@ops.example", "night@öps.example"):
            assert refusal(to | {name: address}).startswith(f"{name} must contain only ASCII characters")

    settings = load_settings(to | {"SMTP_URL": "smtps://user:p%40ss@mail.example"})
    assert settings.alert_email_to == ("night@ops.example", "finance@ops.example")
    assert settings.alert_sender == "alerts@market.example"
    assert (settings.alert_chat_severity, settings.alert_email_severity) == ("SEV-2", "SEV-3")


@pytest.mark.parametrize("environment", ["embedded", "test"])
def test_embedded_and_test_environments_have_defaults_and_allow_rate_limit_scale(environment: str) -> None:
    settings = load_settings({"ENVIRONMENT": environment, "RATE_LIMIT_SCALE": "1000"})

    assert settings.rate_limit_scale == 1000
    assert settings.public_base_url == "http://127.0.0.1:8000"


def test_values_are_converted_to_declared_types() -> None:
    settings = load_settings(
        PRODUCTION
        | {
            "PUBLIC_BASE_URL": "https://market.example/",
            "IDENTITY_ALGORITHMS": "RS256, ES256",
            "CORS_ORIGINS": "https://shop.example http://127.0.0.1:3000,http://localhost:*",
            "TRUSTED_PROXY_HOPS": "2",
            "GATEWAY_WEBHOOK_ADDRESSES": "203.0.113.7, 198.51.100.0/24 2001:DB8::/32",
        }
    )

    assert settings.public_base_url == "https://market.example"
    assert settings.identity_algorithms == ("RS256", "ES256")
    assert settings.cors_origins == ("https://shop.example", "http://127.0.0.1:3000", "http://localhost:*")
    assert settings.trusted_proxy_hops == 2
    assert settings.gateway_webhook_addresses == ("203.0.113.7/32", "198.51.100.0/24", "2001:db8::/32")
    # Tokens contain the issuer exactly, with the final slash.
    assert settings.identity_issuer == "https://identity.example/"
    assert settings.media_base_url == "https://market.example/media"


def test_media_base_url_can_be_overridden() -> None:
    settings = load_settings(PRODUCTION | {"S3_PUBLIC_URL": "https://media.example/bucket/"})

    assert settings.media_base_url == "https://media.example/bucket"


def test_every_setting_is_documented_and_credentials_are_marked_secret() -> None:
    for item in fields(Settings):
        assert item.metadata["doc"].endswith((".", "://…"))
        opens = any(word in item.name for word in ("secret", "key", "dsn", "token"))
        # An access key's id is a name, not a key.
        assert item.metadata["secret"] or not opens or item.name == "s3_access_key_id"


def write(directory: Path, *lines: str) -> None:
    (directory / "stack.env").write_text("\n".join(lines), encoding="utf-8")


def test_command_reads_variables_of_the_stack_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        "# of the embedded stack",
        "",
        "DATABASE_URL=postgresql://m@h/d?a=b",
        "CURSOR_KEY=a=b=c ",
        "x",
    )

    assert read_embedded_environment({"DATA_DIR": str(tmp_path)}) == {
        "DATABASE_URL": "postgresql://m@h/d?a=b",
        "CURSOR_KEY": "a=b=c",
    }


def test_stack_file_is_ignored_if_a_database_is_set(tmp_path: Path) -> None:
    write(tmp_path, "DATABASE_URL=postgresql://m@h/d")

    named = {"DATA_DIR": str(tmp_path), "DATABASE_URL": "postgresql://elsewhere/d"}
    assert read_embedded_environment(named) == {}
    assert read_embedded_environment({"DATA_DIR": str(tmp_path / "other")}) == {}


def test_stack_file_is_read_from_data_directory_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".data").mkdir()
    write(tmp_path / ".data", "REDIS_URL=redis://h")

    assert read_embedded_environment({}) == {"REDIS_URL": "redis://h"}
