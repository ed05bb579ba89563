"""Texts of the pages about errors: cause, cure and an example of each error code."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from marketplace.kernel.errors import InvalidParam

# Members of every example.
REQUEST_ID = "e6a5d33a-e98e-41b9-ae95-51fbe0b8a8db"
OCCURRED_AT = datetime(2026, 11, 21, 10, 52, 1, 700892, UTC)
_ORDER = "/api/orders/01a1fdbc-0972-73fc-a973-25376180e044"


@dataclass(frozen=True)
class ErrorHelp:
    """The explanation of an error code, with the path and the variable members of an example."""

    cause: str
    cure: str
    path: str
    detail: str | None = None
    invalid_params: list[InvalidParam] = field(default_factory=list)
    extensions: dict[str, Any] = field(default_factory=dict)


HELP = {
    "AUTH_UNAUTHORIZED": ErrorHelp(
        cause="The Authorization header is missing, or the token has a wrong signature, issuer or audience."
        " A webhook has no valid signature.",
        cure="Sign in with the identity provider. Then send the header Authorization: Bearer <ACCESS_TOKEN>.",
        path="/api/users/me",
    ),
    "AUTH_TOKEN_EXPIRED": ErrorHelp(
        cause="The token's time of expiry (exp) has passed.",
        cure="Refresh the token with the identity provider and repeat the request.",
        path="/api/users/me",
    ),
    "AUTH_FORBIDDEN": ErrorHelp(
        cause="The account is restricted or suspended, lacks the role or permission, or is a party to the case.",
        cure="Read reason and detail. Sign in with an account that has the role, or ask another officer.",
        path="/api/payouts/batches",
        detail="Your account needs the permission canManageFinances.",
        extensions={"reason": "permission-required"},
    ),
    "AUTH_AAL2_REQUIRED": ErrorHelp(
        cause="The action is protected, and the token comes from a sign-in with one factor.",
        cure="Sign in with two factors. The new token has the assurance level aal2.",
        path="/api/payouts/dispatch",
    ),
    "VALIDATION_FAILED": ErrorHelp(
        cause="A field, a parameter or a header does not fit the route's schema. Status 400 stands for a request"
        " that cannot be parsed, 414 and 431 for a URL and headers that are too large.",
        cure="Correct each entry of invalid_params. Its name is the path of the field.",
        path="/api/products",
        detail="title and priceMinor are invalid. See invalid_params.",
        invalid_params=[
            InvalidParam("title", "Missing data for required field."),
            InvalidParam("priceMinor", "Must be greater than or equal to 1."),
        ],
    ),
    "RESOURCE_NOT_FOUND": ErrorHelp(
        cause="The path does not exist, or the resource does not exist or belongs to another person.",
        cure="Compare the path and its ids with the documentation. Check that the token is the owner's.",
        path=_ORDER,
    ),
    "METHOD_NOT_ALLOWED": ErrorHelp(
        cause="The path exists, but does not support this method.",
        cure="Use one of the methods in the Allow header.",
        path="/api/products",
    ),
    "CONCURRENCY_CONFLICT": ErrorHelp(
        cause="The resource is in a state that does not allow the action, or it changed since you read it.",
        cure="Read the resource again. Then decide by its state and by reason whether to repeat the action.",
        path=f"{_ORDER}/cancel",
        detail="The order is shipped, but cancel requires pending_payment, paid_escrow or processing.",
        extensions={"reason": "transition-not-allowed"},
    ),
    "ESCROW_BALANCE_DEFICIT": ErrorHelp(
        cause="The refund or release is larger than the amount that the order's escrow holds.",
        cure="Read the order's escrow balance and send an amount up to that balance.",
        path=f"{_ORDER}/process-refund",
        detail="amountMinor must not exceed the escrow balance (120000).",
        invalid_params=[InvalidParam("amountMinor", "Must not exceed 120000.")],
        extensions={"reason": "escrow-balance-deficit"},
    ),
    "PAYLOAD_TOO_LARGE": ErrorHelp(
        cause="The body exceeds the limit: 1 MB for JSON, 5 MB for a picture.",
        cure="Send a smaller body. Scale pictures down before the upload.",
        path="/api/products/images",
        detail="The file must not exceed 5 MB.",
    ),
    "UNSUPPORTED_MEDIA_TYPE": ErrorHelp(
        cause="The body has another content type than the route reads, or is compressed.",
        cure="Send JSON with the header Content-Type: application/json, without Content-Encoding.",
        path="/api/products",
    ),
    "ESCROW_LOCKED": ErrorHelp(
        cause="Part of the amount belongs to orders that are not delivered, or to a dispute.",
        cure="Wait until the buyer's PIN or confirmation releases the escrow. Withdraw the available balance.",
        path="/api/payouts/dispatch",
        extensions={"reason": "funds-in-escrow"},
    ),
    "DELIVERY_PIN_INVALID": ErrorHelp(
        cause="The PIN is not the PIN of this order.",
        cure="Ask the buyer to read the PIN from the order again. Five wrong PINs lock the check for 15 minutes.",
        path=f"{_ORDER}/verify-code",
        detail="The PIN is wrong.",
        extensions={"reason": "wrong-pin", "attemptsLeft": 4},
    ),
    "RATE_LIMIT_EXCEEDED": ErrorHelp(
        cause="The caller has used up the quota of the route or of the caller's tier.",
        cure="Wait for the seconds in the Retry-After header. The RateLimit headers show the quota.",
        path="/api/products",
    ),
    "INTERNAL_ERROR": ErrorHelp(
        cause="This service has a fault. The error was reported.",
        cure="Repeat the request with the same Idempotency-Key. If it fails again, contact support with"
        " correlationId.",
        path="/api/orders",
    ),
    "PROVIDER_UNAVAILABLE": ErrorHelp(
        cause="The payment gateway or another provider failed or did not answer in time.",
        cure="Repeat the request with the same Idempotency-Key. A payment is never charged twice.",
        path="/api/payments/initialize",
    ),
    "SERVICE_UNAVAILABLE": ErrorHelp(
        cause="A part of this service is unavailable, starting, stopping or under maintenance.",
        cure="Repeat the request after the seconds in the Retry-After header.",
        path="/api/products",
    ),
}
