"""The payment gateway's webhook, under both of its addresses."""

import ipaddress
from functools import lru_cache
from typing import Any

import structlog
from flask import Response, request

from blueprints.http.contract import UNCHECKED, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.http.request_parsing import read_signed_bytes
from blueprints.http.request_scope import sender_address
from blueprints.webhooks.inbox import store
from blueprints.webhooks.schemas import Anything, Received
from marketplace.kernel.errors import ForbiddenError, MarketplaceError, NotFoundError, UnauthorizedError
from marketplace.providers.gateway.payments import signature_matches

area = Area("gateway-webhook", "/api/payments", "Events of the payment gateway")
functions = Area("functions", "/functions/v1", "Functions that providers call")
_log = structlog.get_logger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class SigningSecretMissingError(MarketplaceError):
    """No webhook can be checked, so none is taken: this must be loud, and the gateway will send again."""

    code = "INTERNAL_ERROR"


@area.post(
    "/webhook", auth=UNCHECKED, limit=Shared.UNLIMITED, query=Anything, reply=Received, enveloped=False,
    autocommit=True,
)  # fmt: skip
def webhook(ctx: Context, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway; a worker processes it."""
    return _take(ctx)


@functions.post(
    "/<string:gateway>-webhook",
    auth=UNCHECKED,
    limit=Shared.UNLIMITED,
    query=Anything,
    reply=Received,
    enveloped=False,
    autocommit=True,
)
def gateway_webhook(ctx: Context, gateway: str, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway, whose name stands in the path."""
    if gateway != ctx.services.settings.gateway_name:
        raise NotFoundError("There is no such function.")
    return _take(ctx)


def _take(ctx: Context) -> Response:
    settings = ctx.services.settings
    if settings.gateway_webhook_addresses and not _is_in(
        sender_address(), settings.gateway_webhook_addresses
    ):
        _log.warning("webhook refused: it comes from elsewhere")
        raise ForbiddenError("Webhooks are not taken from this address.")
    body = read_signed_bytes()
    if not settings.gateway_secret_key:
        _log.error("webhook refused: no signing secret is configured")
        raise SigningSecretMissingError("The service can't check the signature just now.")
    signature = request.headers.get(f"x-{settings.gateway_name}-signature", "")
    if not signature_matches(secret=settings.gateway_secret_key, body=body, signature=signature):
        raise UnauthorizedError("The signature is missing or is not that of this body.")
    return store(ctx, provider="gateway", body=body)


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    """Tell whether an address belongs to one of some networks; what is no address belongs to none."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in _read(networks))


@lru_cache(maxsize=8)
def _read(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in networks)
