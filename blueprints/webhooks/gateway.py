"""The payment gateway's webhook, under both of its addresses."""

import ipaddress
from functools import lru_cache
from typing import Any

import structlog
from flask import Response, request

from blueprints.http.context import client_ip
from blueprints.http.contract import UNCHECKED, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.request_parsing import read_signed_body
from blueprints.webhooks.inbox import store_delivery
from blueprints.webhooks.schemas import AnyQuery, WebhookReceipt
from marketplace.kernel.errors import ForbiddenError, MarketplaceError, NotFoundError, UnauthorizedError
from marketplace.providers.webhook_signature import signature_matches

area = ContractBlueprint("gateway-webhook", "/api/payments", "Events of the payment gateway")
functions_area = ContractBlueprint("functions", "/functions/v1", "Functions that providers call")
_log = structlog.get_logger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class SigningSecretMissingError(MarketplaceError):
    """No webhook can be checked, so none is taken: this must be loud, and the gateway will send again."""

    code = "INTERNAL_ERROR"


@area.post(
    "/webhook", auth=UNCHECKED, limit=SharedLimit.UNLIMITED, query=AnyQuery, reply=WebhookReceipt, enveloped=False,
    autocommit=True,
)  # fmt: skip
def webhook(ctx: Context, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway; a worker processes it."""
    return _receive_event(ctx)


@functions_area.post(
    "/<string:gateway>-webhook",
    auth=UNCHECKED,
    limit=SharedLimit.UNLIMITED,
    query=AnyQuery,
    reply=WebhookReceipt,
    enveloped=False,
    autocommit=True,
)
def gateway_webhook(ctx: Context, gateway: str, query: dict[str, Any]) -> Response:
    """Store a signed event of the gateway, whose name stands in the path."""
    if gateway != ctx.services.settings.gateway_name:
        raise NotFoundError("There is no such function.")
    return _receive_event(ctx)


def _receive_event(ctx: Context) -> Response:
    settings = ctx.services.settings
    if settings.gateway_webhook_addresses and not _is_in_networks(
        client_ip(), settings.gateway_webhook_addresses
    ):
        _log.warning("webhook refused: it comes from elsewhere")
        raise ForbiddenError("Webhooks are not taken from this address.")
    body = read_signed_body()
    if not settings.gateway_secret_key:
        _log.error("webhook refused: no signing secret is configured")
        raise SigningSecretMissingError("The service can't check the signature just now.")
    signature = request.headers.get(f"x-{settings.gateway_name}-signature", "")
    if not signature_matches(
        secret=settings.gateway_secret_key, body=body, signature=signature, algorithm="sha512"
    ):
        raise UnauthorizedError("The signature is missing or is not that of this body.")
    return store_delivery(ctx, provider="gateway", body=body)


def _is_in_networks(address: str, networks: tuple[str, ...]) -> bool:
    """Tell whether an address belongs to one of some networks; what is no address belongs to none."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in _parse_networks(networks))


@lru_cache(maxsize=8)
def _parse_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in networks)
