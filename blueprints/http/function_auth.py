"""Authentication of callers of functions: a functions key, or a signature by the Standard Webhooks specification.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from collections.abc import Mapping

import structlog
from flask import request
from standardwebhooks import Webhook, WebhookVerificationError

from blueprints.http import texts
from blueprints.http.request_parsing import read_signed_body
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import MarketplaceError, UnauthorizedError

_BEARER_PREFIX = "bearer "
_SIGNATURE_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
# A provider sends one signature for each of its current secrets.
_MAX_SIGNATURES = 10
_log = structlog.get_logger(__name__)


class FunctionsKeyMissingError(MarketplaceError):
    """No functions key and no signing secret is configured, so all calls are refused."""

    code = "INTERNAL_ERROR"


def authenticate_function_call(settings: Settings) -> None:
    """Check the functions key or the signature of a call.

    The signature covers the raw body, and its timestamp is at most five minutes from the present.

    :raises FunctionsKeyMissingError: the service has neither a key nor a signing secret
    :raises UnauthorizedError: the call has neither a configured key nor a correct signature
    """
    if not settings.functions_keys and not settings.functions_signing_keys:
        _log.error("function call refused: no functions key or signing secret configured")
        raise FunctionsKeyMissingError(texts.FUNCTIONS_KEY_NOT_CONFIGURED)
    if _has_functions_key(settings.functions_keys):
        return
    headers = {name: request.headers.get(name, "") for name in _SIGNATURE_HEADERS}
    if all(headers.values()):
        body = read_signed_body()
        if any(_is_signed(secret, body, headers) for secret in settings.functions_signing_keys):
            return
    raise UnauthorizedError(texts.FUNCTION_CALL_UNAUTHORIZED)


def _has_functions_key(keys: tuple[str, ...]) -> bool:
    header = request.headers.get("Authorization", "")
    if header[: len(_BEARER_PREFIX)].lower() != _BEARER_PREFIX:
        return False
    given = header[len(_BEARER_PREFIX) :].strip().encode("utf-8", "replace")
    return any(hmac.compare_digest(given, key.encode()) for key in keys)


def _is_signed(secret: bytes, body: bytes, headers: Mapping[str, str]) -> bool:
    if headers["webhook-signature"].count(" ") >= _MAX_SIGNATURES:
        return False
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # ValueError: no UTF-8, or a malformed signature
        return False
    return True
