"""The entry point of ``python -m sandbox.providers``, which serves until SIGTERM or Ctrl-C."""

import argparse
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from marketplace.kernel.origins import parse_origins
from sandbox.providers.gateway import context
from sandbox.providers.server import (
    DEFAULT_AUDIENCE,
    DEFAULT_PUBLIC_BASE_URL,
    PortUnavailableError,
    ProvidersServer,
)
from sandbox.providers.store import StoreVersionError

SETTINGS_HELP = """environment:
  GATEWAY_SECRET_KEY      key that authenticates callers and signs webhooks (sk_test_...); required
  GATEWAY_NAME            name in the webhook header x-<name>-signature (gateway)
  GATEWAY_FEE_BEARER      who pays the fee: platform or customer (platform)
  PUBLIC_BASE_URL         address of the application (http://127.0.0.1:8000)
  SANDBOX_WEBHOOK_URL     destination of events ({PUBLIC_BASE_URL}/api/payments/webhook)
  SANDBOX_PUBLIC_URL      address of these providers for browsers (http://HOST:PORT)
  SANDBOX_RETRY_SCALE     share of the real delays between webhook attempts (1/60: 3 s, then 60 s)
  SANDBOX_SETTLE_SECONDS  delay between a transfer or refund and its result (2)
  SANDBOX_HANG_SECONDS    duration of a call with the outcome "timeout" (30)
  IDENTITY_AUDIENCE       the aud of access tokens (campus-marketplace)
  CORS_ORIGINS            browser pages that may call the identity provider (empty: none)
  IDENTITY_ADMIN_KEY      key of the identity provider's administration (empty: no administration)
  AI_KEY                  API key of the AI provider (empty: no key needed)
  SMS_API_KEY             API key of the SMS gateway (empty: any key)
  FCM_CREDENTIALS         JSON key of the service account for native push (empty: a new key)
  MESSAGING_ACCESS_TOKEN  access token of the messaging provider (empty: any token)
  MESSAGING_APP_SECRET    secret that signs receipts (empty: unsigned)
  FUNCTIONS_KEY           key of the application's functions, which receive replies by e-mail
  SANDBOX_MAIL_PORT       port of the mail server (any free port)
"""


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Serve the providers until a stop signal.

    :return: the exit status: 0 after a stop, 1 after a failed start
    """
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.providers",
        description="The sandbox payment gateway (/gateway), identity provider (/identity), AI provider (/ai),"
        " chat (/chat), SMS gateway (/sms), and the push services, messaging provider and mail server of people's"
        " messages (/inbox).",
        epilog=SETTINGS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8090, help="port to listen on, 0 for any (%(default)s)")
    parser.add_argument("--data", type=Path, required=True, help="directory of the database files")
    options = parser.parse_args(arguments)
    _configure_logs(environment.get("LOG_LEVEL", "INFO"))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server = _server(options, environment)
    except (context.InvalidSettingsError, PortUnavailableError, StoreVersionError) as error:
        return _refuse(str(error))
    except (OSError, sqlite3.Error) as error:
        return _refuse(f"the data directory {options.data} is not usable: {error}")
    log = structlog.stdlib.get_logger("sandbox.providers")
    with server:
        log.info(
            "sandbox providers ready",
            gateway=server.gateway_url,
            identity=server.identity_issuer,
            ai=server.ai_url,
            chat=server.chat_url,
            sms=server.sms_url,
            inbox=server.inbox_url,
        )
        stop.wait()
    log.info("sandbox providers stopped")
    return 0


def _server(options: argparse.Namespace, environment: Mapping[str, str]) -> ProvidersServer:
    fee_bearer = environment.get("GATEWAY_FEE_BEARER") or "platform"
    return ProvidersServer(
        options.host,
        options.port,
        options.data,
        secret_key=environment.get("GATEWAY_SECRET_KEY", ""),
        gateway_name=environment.get("GATEWAY_NAME") or "gateway",
        webhook_url=environment.get("SANDBOX_WEBHOOK_URL") or None,
        public_base_url=environment.get("PUBLIC_BASE_URL") or DEFAULT_PUBLIC_BASE_URL,
        public_url=environment.get("SANDBOX_PUBLIC_URL") or None,
        audience=environment.get("IDENTITY_AUDIENCE") or DEFAULT_AUDIENCE,
        identity_admin_key=environment.get("IDENTITY_ADMIN_KEY", ""),
        ai_key=environment.get("AI_KEY", ""),
        sms_key=environment.get("SMS_API_KEY", ""),
        fcm_credentials=environment.get("FCM_CREDENTIALS", ""),
        messaging_token=environment.get("MESSAGING_ACCESS_TOKEN", ""),
        messaging_secret=environment.get("MESSAGING_APP_SECRET", ""),
        functions_key=environment.get("FUNCTIONS_KEY", ""),
        mail_port=int(environment.get("SANDBOX_MAIL_PORT") or 0),
        cors_origins=_origins(environment.get("CORS_ORIGINS", "")),
        fee_bearer=_fee_bearer(fee_bearer),
        retry_scale=_number(environment, "SANDBOX_RETRY_SCALE", context.DEFAULT_RETRY_SCALE),
        settle_seconds=_number(environment, "SANDBOX_SETTLE_SECONDS", context.DEFAULT_SETTLE_SECONDS),
        hang_seconds=_number(environment, "SANDBOX_HANG_SECONDS", context.DEFAULT_HANG_SECONDS),
    )


def _fee_bearer(word: str) -> context.FeeBearer:
    for bearer in context.FEE_BEARERS:
        if bearer == word:
            return bearer
    raise context.InvalidSettingsError(f"GATEWAY_FEE_BEARER must be one of {', '.join(context.FEE_BEARERS)}")


def _origins(value: str) -> tuple[str, ...]:
    try:
        return parse_origins(value) if value else ()
    except ValueError as error:
        raise context.InvalidSettingsError(f"CORS_ORIGINS {error}") from error


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    value = environment.get(name)
    if not value:
        return default
    try:
        return float(value)
    except ValueError as error:
        raise context.InvalidSettingsError(f"{name} must be a number") from error


def _refuse(message: str) -> int:
    print(f"sandbox providers: {message}", file=sys.stderr)
    return 1


def _configure_logs(level: str) -> None:
    """Configure JSON logs, a line per event, as in the stack's other processes."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
