"""The messaging provider's webhook: the handshake that verifies its address, and what customers write."""

import hmac
from typing import Any

from flask import Response, request

from blueprints.http.contract import UNCHECKED, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.request_parsing import read_signed_body
from blueprints.webhooks.inbox import store_delivery
from blueprints.webhooks.schemas import AnyQuery, WebhookReceipt, WebhookVerificationQuery
from marketplace.kernel.errors import ForbiddenError, UnauthorizedError
from marketplace.providers.webhook_signature import signature_matches

area = ContractBlueprint(
    "messaging-webhook", "/api/whatsapp", "Messages and delivery statuses of the messaging provider"
)


@area.get(
    "/webhook",
    auth=UNCHECKED,
    limit=SharedLimit.CALLER_TIER,
    query=WebhookVerificationQuery,
    enveloped=False,
    plain=True,
)
def verify_address(ctx: Context, query: dict[str, Any]) -> Response:
    """Answer the provider's challenge, if it shows the token that was agreed on."""
    expected_token = ctx.services.settings.messaging_verify_token
    given_token = query["verify_token"]
    if (
        not expected_token
        or query["mode"] != "subscribe"
        or not hmac.compare_digest(_encode_token(given_token), _encode_token(expected_token))
    ):
        raise ForbiddenError("The mode is not subscribe, or the token is not the one that was agreed on.")
    return Response(query["challenge"], content_type="text/plain; charset=utf-8")


@area.post(
    "/webhook", auth=UNCHECKED, limit=SharedLimit.UNLIMITED, query=AnyQuery, reply=WebhookReceipt, enveloped=False,
    autocommit=True,
)  # fmt: skip
def receive_messages(ctx: Context, query: dict[str, Any]) -> Response:
    """Store messages and delivery statuses, signed where a secret was agreed on."""
    secret = ctx.services.settings.messaging_app_secret
    body = read_signed_body()
    # Production does not start without a secret.
    if secret:
        signature = request.headers.get("X-Hub-Signature-256", "")
        if not signature_matches(
            secret=secret, body=body, signature=signature, algorithm="sha256", prefix="sha256="
        ):
            raise UnauthorizedError("The signature is missing or is not that of this body.")
    return store_delivery(ctx, provider="messaging", body=body)


def _encode_token(text: str) -> bytes:
    return text.encode("utf-8", "replace")
