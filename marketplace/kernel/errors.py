"""The catalog of errors that reach a client, as classes. The edge turns them into problem details."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

_RowT = TypeVar("_RowT")


@dataclass(frozen=True)
class InvalidParam:
    """One fault of a request: the path of the field (``items[0].quantity``) and what is wrong with it."""

    name: str
    reason: str


@dataclass(frozen=True)
class CatalogEntry:
    """What the catalog says of a code: its HTTP status, its title and what it means."""

    status: int
    title: str
    meaning: str


CATALOG: dict[str, CatalogEntry] = {
    "AUTH_UNAUTHORIZED": CatalogEntry(401, "Unauthorized", "The bearer token is missing or not valid."),
    "AUTH_TOKEN_EXPIRED": CatalogEntry(
        401, "Token Expired", "The token has expired. Get a fresh one and try again."
    ),
    "AUTH_FORBIDDEN": CatalogEntry(
        403, "Forbidden", "The account, its role or its permissions do not allow this."
    ),
    "AUTH_AAL2_REQUIRED": CatalogEntry(
        403,
        "Two-Factor Required",
        "This action needs a token with assurance level aal2. Sign in with two factors.",
    ),
    "VALIDATION_FAILED": CatalogEntry(
        422,
        "Unprocessable Entity",
        "The body or a parameter is not as the API describes it; invalid_params names each fault. "
        "A body that is not JSON at all answers 400 with the same code.",
    ),
    "RESOURCE_NOT_FOUND": CatalogEntry(
        404, "Not Found", "There is no such resource, or it is not yours to see."
    ),
    "METHOD_NOT_ALLOWED": CatalogEntry(
        405, "Method Not Allowed", "The resource does not know this method; Allow names those it knows."
    ),
    "CONCURRENCY_CONFLICT": CatalogEntry(
        409, "Conflict", "The resource is in another state, or someone changed it meanwhile. Read it again."
    ),
    "ESCROW_BALANCE_DEFICIT": CatalogEntry(
        409, "Escrow Balance Deficit", "More was asked for than the verified escrow balance holds."
    ),
    "PAYLOAD_TOO_LARGE": CatalogEntry(
        413, "Payload Too Large", "The request's body is larger than this route takes."
    ),
    "UNSUPPORTED_MEDIA_TYPE": CatalogEntry(
        415, "Unsupported Media Type", "The route does not take a body of this content type or encoding."
    ),
    "ESCROW_LOCKED": CatalogEntry(423, "Locked", "The funds are locked in escrow and can't be withdrawn."),
    "DELIVERY_PIN_INVALID": CatalogEntry(
        400,
        "Delivery PIN Invalid",
        "The PIN is not this order's. attemptsLeft tells how many tries are left.",
    ),
    "RATE_LIMIT_EXCEEDED": CatalogEntry(
        429, "Too Many Requests", "The quota is used up. Wait the seconds that Retry-After names."
    ),
    "INTERNAL_ERROR": CatalogEntry(
        500,
        "Internal Server Error",
        "Something failed on our side and was reported. Quote the correlationId.",
    ),
    "PROVIDER_UNAVAILABLE": CatalogEntry(
        502, "Bad Gateway", "A provider that this needs failed or did not answer in time. Try again."
    ),
    "SERVICE_UNAVAILABLE": CatalogEntry(
        503,
        "Service Unavailable",
        "The service can't take this just now. Try again after Retry-After seconds.",
    ),
}


class MarketplaceError(Exception):
    """An error that the API answers as a problem.

    ``reason`` identifies the condition among those that share a code. Clients depend on its value, so it stays
    the same when the class is renamed. Errors without a specific condition have none.
    ``keeps_changes`` commits what the transaction wrote before the refusal, such as a wrong PIN's count.
    Any other error rolls the transaction back.
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
        """Give the HTTP status of the answer."""
        return self.entry.status

    @property
    def title(self) -> str:
        """Give the title of the answer."""
        return self.entry.title


class UnauthorizedError(MarketplaceError):
    """The bearer token is missing or not valid."""

    code = "AUTH_UNAUTHORIZED"


class TokenExpiredError(MarketplaceError):
    """The token was valid once."""

    code = "AUTH_TOKEN_EXPIRED"


class ForbiddenError(MarketplaceError):
    """The account, its role or its permissions do not allow this."""

    code = "AUTH_FORBIDDEN"


class AccountNotActiveError(ForbiddenError):
    """The account is restricted or suspended."""

    reason = "account-not-active"


class RoleRequiredError(ForbiddenError):
    """The account has another role than the route requires."""

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
    """The action needs assurance level aal2."""

    code = "AUTH_AAL2_REQUIRED"


class ValidationError(MarketplaceError):
    """The body or a parameter is not as described."""

    code = "VALIDATION_FAILED"

    @classmethod
    def of(cls, name: str, reason: str) -> "ValidationError":
        """Make the error of one fault."""
        return cls(f"{name}: {reason}", invalid_params=[InvalidParam(name, reason)])


class MalformedBodyError(ValidationError):
    """The body is not JSON at all: the one case that the specification answers with 400."""

    status = 400
    title = "Bad Request"


class NotFoundError(MarketplaceError):
    """No such row, or not in the caller's scope."""

    code = "RESOURCE_NOT_FOUND"


def found(row: _RowT | None, detail: str) -> _RowT:
    """Give a row that was looked up.

    :raises NotFoundError: the look-up found none
    """
    if row is None:
        raise NotFoundError(detail)
    return row


class ConflictError(MarketplaceError):
    """The state does not allow it, or a revision is stale."""

    code = "CONCURRENCY_CONFLICT"


class StaleRevisionError(ConflictError):
    """The resource has changed since the client read it."""

    reason = "stale-revision"

    @classmethod
    def check(cls, current: int, revision: int | None, *, subject: str, pronoun: str = "it") -> None:
        """Compare the revision that a client read with the current one.

        :param revision: none not to compare
        :param subject: begins the message, such as ``The store is``
        :raises StaleRevisionError: the revisions differ
        """
        if revision is not None and revision != current:
            raise cls(
                f"{subject} at revision {current} by now, not {revision}: read {pronoun} again.",
                invalid_params=[InvalidParam("revision", f"The current one is {current}.")],
            )


class ConcurrentChangeError(ConflictError):
    """Another request changed the same data at the same time."""

    reason = "concurrent-change"


class LimitReachedError(ConflictError):
    """The maximum number of such entries is reached."""

    reason = "limit-reached"


class PayloadTooLargeError(MarketplaceError):
    """The body is larger than the route takes."""

    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaTypeError(MarketplaceError):
    """The body is of a type or encoding that the route does not take."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RateLimitError(MarketplaceError):
    """A quota is used up."""

    code = "RATE_LIMIT_EXCEEDED"


class ProviderUnavailableError(MarketplaceError):
    """A provider failed or timed out."""

    code = "PROVIDER_UNAVAILABLE"


class ServiceUnavailableError(MarketplaceError):
    """Something of our own that this needs is down."""

    code = "SERVICE_UNAVAILABLE"
