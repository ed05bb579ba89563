"""Classes of the errors that reach a client. The HTTP edge turns these errors into problem details."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from marketplace.kernel import texts

_RowT = TypeVar("_RowT")


@dataclass(frozen=True)
class InvalidParam:
    """An invalid field of a request: the path of the field (``items[0].quantity``) and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class CatalogEntry:
    """The HTTP status, title and meaning of an error code."""

    status: int
    title: str
    meaning: str


CATALOG: dict[str, CatalogEntry] = {
    "AUTH_UNAUTHORIZED": CatalogEntry(401, "Unauthorized", texts.AUTH_UNAUTHORIZED),
    "AUTH_TOKEN_EXPIRED": CatalogEntry(401, "Token Expired", texts.AUTH_TOKEN_EXPIRED),
    "AUTH_FORBIDDEN": CatalogEntry(403, "Forbidden", texts.AUTH_FORBIDDEN),
    "AUTH_AAL2_REQUIRED": CatalogEntry(403, "Two-Factor Required", texts.AUTH_AAL2_REQUIRED),
    "VALIDATION_FAILED": CatalogEntry(422, "Unprocessable Entity", texts.VALIDATION_FAILED),
    "RESOURCE_NOT_FOUND": CatalogEntry(404, "Not Found", texts.RESOURCE_NOT_FOUND),
    "METHOD_NOT_ALLOWED": CatalogEntry(405, "Method Not Allowed", texts.METHOD_NOT_ALLOWED),
    "CONCURRENCY_CONFLICT": CatalogEntry(409, "Conflict", texts.CONCURRENCY_CONFLICT),
    "ESCROW_BALANCE_DEFICIT": CatalogEntry(409, "Escrow Balance Deficit", texts.ESCROW_BALANCE_DEFICIT),
    "PAYLOAD_TOO_LARGE": CatalogEntry(413, "Payload Too Large", texts.PAYLOAD_TOO_LARGE),
    "UNSUPPORTED_MEDIA_TYPE": CatalogEntry(415, "Unsupported Media Type", texts.UNSUPPORTED_MEDIA_TYPE),
    "ESCROW_LOCKED": CatalogEntry(423, "Locked", texts.ESCROW_LOCKED),
    "DELIVERY_PIN_INVALID": CatalogEntry(400, "Delivery PIN Invalid", texts.DELIVERY_PIN_INVALID),
    "RATE_LIMIT_EXCEEDED": CatalogEntry(429, "Too Many Requests", texts.RATE_LIMIT_EXCEEDED),
    "INTERNAL_ERROR": CatalogEntry(500, "Internal Server Error", texts.INTERNAL_ERROR),
    "PROVIDER_UNAVAILABLE": CatalogEntry(502, "Bad Gateway", texts.PROVIDER_UNAVAILABLE),
    "SERVICE_UNAVAILABLE": CatalogEntry(503, "Service Unavailable", texts.SERVICE_UNAVAILABLE),
}


class MarketplaceError(Exception):
    """An error that the API returns as a problem.

    ``reason`` identifies the condition among errors with the same code. Clients depend on the value, so a renamed
    class keeps the value. Errors without a specific condition have no reason.
    ``keeps_changes`` commits the changes made before the error, such as the count of wrong PINs. Any other error
    rolls the transaction back.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    reason: ClassVar[str | None] = None
    keeps_changes: ClassVar[bool] = False

    def __init__(
        self,
        detail: str | None = None,
        *,
        invalid_params: list[InvalidParam] | None = None,
        retry_after_seconds: int | None = None,
        extensions: dict[str, Any] | None = None,
    ) -> None:
        self.entry = CATALOG[self.code]
        self.detail = detail or self.entry.meaning
        self.invalid_params = invalid_params or []
        self.retry_after_seconds = retry_after_seconds
        self.extensions = extensions or {}
        super().__init__(self.detail)

    @property
    def status(self) -> int:
        """The HTTP status of the response."""
        return self.entry.status

    @property
    def title(self) -> str:
        """The title of the problem."""
        return self.entry.title


class UnauthorizedError(MarketplaceError):
    """The bearer token is missing or invalid."""

    code = "AUTH_UNAUTHORIZED"


class TokenExpiredError(MarketplaceError):
    """The token has expired."""

    code = "AUTH_TOKEN_EXPIRED"


class ForbiddenError(MarketplaceError):
    """The account, role or permissions do not allow this action."""

    code = "AUTH_FORBIDDEN"


class AccountNotActiveError(ForbiddenError):
    """The account is restricted or suspended."""

    reason = "account-not-active"


class AccountErasedError(ForbiddenError):
    """The person had the personal data erased, so the account cannot be used again."""

    reason = "account-erased"


class RecentSignInRequiredError(ForbiddenError):
    """The action requires a sign-in of the last minutes."""

    reason = "recent-sign-in-required"


class RoleRequiredError(ForbiddenError):
    """The route requires another role."""

    reason = "role-required"


class PermissionRequiredError(ForbiddenError):
    """The staff account lacks the required permission."""

    reason = "permission-required"


class ConflictOfInterestError(ForbiddenError):
    """The officer is a party to this case, so another officer must decide."""

    reason = "conflict-of-interest"


class SecondApproverRequiredError(ForbiddenError):
    """The officer made the proposal, so another officer must approve it."""

    reason = "second-approver-required"


class StepUpRequiredError(MarketplaceError):
    """The action requires two-factor authentication (assurance level aal2)."""

    code = "AUTH_AAL2_REQUIRED"


class ValidationError(MarketplaceError):
    """The body or a parameter is invalid."""

    code = "VALIDATION_FAILED"

    @classmethod
    def of(cls, name: str, reason: str) -> "ValidationError":
        """Create the error for a single invalid field."""
        return cls(f"{name}: {reason}", invalid_params=[InvalidParam(name, reason)])


class MalformedBodyError(ValidationError):
    """The body is incomplete or is not JSON or multipart data. The status is 400, not 422."""

    status = 400
    title = "Bad Request"


class NotFoundError(MarketplaceError):
    """The row does not exist or is outside the caller's scope."""

    code = "RESOURCE_NOT_FOUND"


def found(row: _RowT | None, detail: str) -> _RowT:
    """Return a row, or raise if the look-up found no row.

    :raises NotFoundError: ``row`` is none
    """
    if row is None:
        raise NotFoundError(detail)
    return row


class ConflictError(MarketplaceError):
    """The state does not allow the action, or the client's revision is stale."""

    code = "CONCURRENCY_CONFLICT"


class StaleRevisionError(ConflictError):
    """The resource has changed since the client read it. Read it again and repeat the change."""

    reason = "stale-revision"

    @classmethod
    def check(cls, current: int, revision: int | None) -> None:
        """Check that the client's revision is the current revision.

        :param revision: the client's revision; none skips the check
        :raises StaleRevisionError: the revisions differ
        """
        if revision is not None and revision != current:
            raise cls(
                texts.STALE_REVISION.format(current=current, revision=revision),
                invalid_params=[InvalidParam("revision", f"The current revision is {current}.")],
            )


class ConcurrentChangeError(ConflictError):
    """Another request changed the same data at the same time."""

    reason = "concurrent-change"


class LimitReachedError(ConflictError):
    """The maximum number of entries is reached."""

    reason = "limit-reached"


class PayloadTooLargeError(MarketplaceError):
    """The body is larger than the route allows."""

    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaTypeError(MarketplaceError):
    """The route does not support the content type or encoding of the body."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RateLimitError(MarketplaceError):
    """The caller has exceeded a rate limit."""

    code = "RATE_LIMIT_EXCEEDED"


class ProviderUnavailableError(MarketplaceError):
    """An external provider failed or timed out.

    :ivar may_have_happened: false if the provider certainly did nothing, such as without a connection
    """

    code = "PROVIDER_UNAVAILABLE"
    may_have_happened: bool = True


class ServiceUnavailableError(MarketplaceError):
    """A component of this service, such as the database, is unavailable."""

    code = "SERVICE_UNAVAILABLE"
