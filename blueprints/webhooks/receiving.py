"""Webhooks of the payment gateway and the messaging provider: check and store deliveries."""

import hmac
import ipaddress
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn

import structlog
from flask import Response, request

from blueprints.http import (
    JSON_TYPE,
    UNCHECKED,
    Context,
    ContractBlueprint,
    SharedLimit,
    client_ip,
    read_signed_body,
)
from blueprints.http.context import client_subnet, current_context
from blueprints.webhooks.schemas import AnyQuery, WebhookReceipt, WebhookVerificationQuery
from marketplace.health.signal_counts import MAX_REJECTIONS, WEBHOOK_REJECTED
from marketplace.infra import wakeups
from marketplace.infra.cache import CacheDownError, RateLimitWindow
from marketplace.kernel import queues
from marketplace.kernel.errors import (
    ForbiddenError,
    MalformedBodyError,
    MarketplaceError,
    NotFoundError,
    PayloadTooLargeError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
)
from marketplace.kernel.signals import RECORDER
from marketplace.providers.webhook_signature import signature_matches
from marketplace.webhooks import texts
from marketplace.webhooks.inbox import receive_event

gateway_area = ContractBlueprint("gateway-webhook", "/api/payments", "Events of the payment gateway")
messaging_area = ContractBlueprint(
    "messaging-webhook", "/api/whatsapp", "Messages and delivery statuses of the messaging provider"
)
functions_area = ContractBlueprint("functions", "/functions/v1", "Functions that providers call")
_log = structlog.get_logger(__name__)
# A provider redelivers after 503, so a fast refusal is better than a slow acknowledgement.
_INSERT_SECONDS = 0.4
_BARRED_SECONDS = 300
_SIGNED_BODY_ERRORS = (
    *(MalformedBodyError, PayloadTooLargeError, UnsupportedMediaTypeError),
    *(UnauthorizedError, ForbiddenError),
)


class SigningSecretMissingError(MarketplaceError):
    """No signing secret is configured, so webhooks are refused. The gateway retries refused deliveries."""

    code = "INTERNAL_ERROR"


@gateway_area.post(
    "/webhook", auth=UNCHECKED, limit=SharedLimit.UNLIMITED, query=AnyQuery, reply=WebhookReceipt, enveloped=False,
    autocommit=True, wait_seconds=_INSERT_SECONDS, raises=_SIGNED_BODY_ERRORS,
)  # fmt: skip
def receive_gateway_webhook(ctx: Context, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway for processing by a worker."""
    return _receive_event(ctx)


@functions_area.post(
    "/<string:gateway>-webhook",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    query=AnyQuery,
    reply=WebhookReceipt,
    enveloped=False,
    autocommit=True,
    wait_seconds=_INSERT_SECONDS,
    raises=_SIGNED_BODY_ERRORS,
)
def receive_named_gateway_webhook(ctx: Context, gateway: str, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway named in the path."""
    if gateway != ctx.services.settings.gateway_name:
        raise NotFoundError("Function not found.")
    return _receive_event(ctx)


def _receive_event(ctx: Context) -> Response:
    settings = ctx.services.settings
    if settings.gateway_webhook_addresses and not _is_in_networks(
        client_ip(), settings.gateway_webhook_addresses
    ):
        _log.warning("webhook refused: sender address not allowed")
        raise ForbiddenError("Webhooks from this address are not allowed.")
    body = read_signed_body()
    if not settings.gateway_secret_key:
        _log.error("webhook refused: no signing secret configured")
        raise SigningSecretMissingError("The service cannot check the signature at the moment.")
    signature = request.headers.get(f"x-{settings.gateway_name}-signature", "")
    _ensure_signed(body, settings.gateway_secret_key, signature, provider="gateway", algorithm="sha512")
    return _store_delivery(ctx, provider="gateway", body=body)


@messaging_area.get(
    "/webhook",
    auth=UNCHECKED,
    limit=SharedLimit.CALLER_TIER,
    query=WebhookVerificationQuery,
    enveloped=False,
    plain=True,
    raises=(ForbiddenError,),
)
def verify_webhook_address(ctx: Context, query: dict[str, Any]) -> Response:
    """Verify the webhook address: return the challenge if the verify token is correct."""
    expected_token = ctx.services.settings.messaging_verify_token.encode("utf-8", "replace")
    given_token = query["verify_token"].encode("utf-8", "replace")
    if (
        not expected_token
        or query["mode"] != "subscribe"
        or not hmac.compare_digest(given_token, expected_token)
    ):
        raise ForbiddenError(
            "`hub.mode` must be `subscribe`, and `hub.verify_token` must be the configured token."
        )
    return Response(query["challenge"], content_type="text/plain; charset=utf-8")


@messaging_area.post(
    "/webhook", auth=UNCHECKED, limit=SharedLimit.UNLIMITED, query=AnyQuery, reply=WebhookReceipt, enveloped=False,
    autocommit=True, wait_seconds=_INSERT_SECONDS, raises=_SIGNED_BODY_ERRORS,
)  # fmt: skip
def receive_messaging_webhook(ctx: Context, query: dict[str, Any]) -> Response:
    """Store messages and delivery statuses. The signature is checked if a secret is configured."""
    secret = ctx.services.settings.messaging_app_secret
    body = read_signed_body()
    # Production does not start without a secret.
    if secret:
        signature = request.headers.get("X-Hub-Signature-256", "")
        _ensure_signed(body, secret, signature, provider="messaging", algorithm="sha256", prefix="sha256=")
    return _store_delivery(ctx, provider="messaging", body=body)


def _ensure_signed(
    body: bytes, secret: str, signature: str, *, provider: str, algorithm: str, prefix: str = ""
) -> None:
    if not signature_matches(
        secret=secret, body=body, signature=signature, algorithm=algorithm, prefix=prefix
    ):
        _refuse_signature(provider)


def _refuse_signature(provider: str) -> NoReturn:
    """Refuse a wrong signature, and bar an address that sends many.

    Only wrong signatures of a barred address are refused without further work: anybody could bar the gateway otherwise.

    :raises ForbiddenError: the address has sent too many wrong signatures
    :raises UnauthorizedError: the signature is wrong
    """
    services = current_context().services
    RECORDER.count(WEBHOOK_REJECTED, provider)
    window = RateLimitWindow(
        key=f"webhook-rejections:{client_subnet()}",
        limit=MAX_REJECTIONS * services.settings.rate_limit_scale,
        period_seconds=_BARRED_SECONDS,
    )
    # Without the cache no address is barred.
    with suppress(CacheDownError):
        if not services.cache.look_up(window=window).allowed:
            raise ForbiddenError(texts.ADDRESS_BARRED)
    raise UnauthorizedError(texts.SIGNATURE_WRONG)


def _store_delivery(ctx: Context, *, provider: str, body: bytes) -> Response:
    """Store a checked delivery, and return the acknowledgement.

    The response is sent after the commit, so an acknowledged delivery cannot get lost.

    :param provider: ``gateway`` or ``messaging``
    """
    inbox_id = receive_event(ctx.session, provider=provider, body=body, now=ctx.now)
    wakeups.send_wakeup(queues.WEBHOOKS, wakeups.INBOX, inbox_id)
    return Response(b'{"received":true}', content_type=JSON_TYPE)


def _is_in_networks(address: str, networks: tuple[str, ...]) -> bool:
    """Return whether an address is in one of the networks. A malformed address is in no network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in _parse_networks(networks))


@lru_cache(maxsize=8)
def _parse_networks(networks: tuple[str, ...]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in networks)
