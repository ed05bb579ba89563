"""The contract of a route: access, limits, inputs and responses."""

from dataclasses import dataclass, replace
from enum import Enum

from marshmallow import Schema

from blueprints.http import texts
from blueprints.http.deprecation import Deprecation
from blueprints.http.envelope import MetaSchema
from blueprints.http.fields import camel_case
from blueprints.http.request_parsing import MAX_BODY_BYTES
from marketplace.idempotency.operations import (
    IdempotencyKeyReusedError,
    RequestInProgressError,
    RequestTakenOverError,
)
from marketplace.identity.permissions import (
    MANAGE_COMPLIANCE,
    MANAGE_DISPUTES,
    MANAGE_FINANCES,
    MANAGE_ORDERS,
    MANAGE_PLATFORM,
    MANAGE_PRODUCTS,
    MANAGE_SUPPORT,
    MANAGE_USERS,
    MANAGE_VENDORS,
    VIEW_AUDIT,
)
from marketplace.identity.queries import Caller
from marketplace.infra.waits.limits import LONG_WAIT_SECONDS
from marketplace.kernel.errors import (
    AccountErasedError,
    AccountNotActiveError,
    ConcurrentChangeError,
    MarketplaceError,
    PermissionRequiredError,
    RecentSignInRequiredError,
    RoleRequiredError,
    StepUpRequiredError,
)


class TokenPolicy(Enum):
    """Treatment of the bearer token by a route."""

    NONE = "none"  # webhooks and probes authenticate in another way or not at all
    FUNCTION = "functions key or signature"
    IGNORED_IF_INVALID = "ignored if bad"  # public routes: a valid token only selects the caller's own quota
    CHECKED_IF_GIVEN = "checked if given"
    REQUIRED = "required"


@dataclass(frozen=True)
class Access:
    """Callers that a route admits, under the name that the specification uses.

    ``roles`` lists the accepted roles; without ``roles`` any role may call. Staff must hold one of ``permissions``,
    if there are any. ``aal2`` requires two factors. ``open_to_restricted`` also admits restricted and suspended
    accounts, and ``open_while_deleting`` people whose account waits for its deletion. ``recent_sign_in`` requires a
    sign-in of the last minutes. ``for_staff`` holds further conditions for staff.
    """

    name: str
    token: TokenPolicy
    roles: frozenset[str] | None = None
    permissions: tuple[str, ...] = ()
    aal2: bool = False
    open_to_restricted: bool = False
    open_while_deleting: bool = False
    recent_sign_in: bool = False
    for_staff: "Access | None" = None

    @property
    def errors(self) -> tuple[type[MarketplaceError], ...]:
        """The errors that ``ensure_allowed`` can raise."""
        checks_account = self.token in (TokenPolicy.CHECKED_IF_GIVEN, TokenPolicy.REQUIRED)
        return (
            *((AccountErasedError,) if checks_account else ()),
            *((AccountNotActiveError,) if checks_account and not self.open_to_restricted else ()),
            *((RoleRequiredError,) if self.roles else ()),
            *((PermissionRequiredError,) if self.permissions else ()),
            *((StepUpRequiredError,) if self.aal2 else ()),
            *((RecentSignInRequiredError,) if self.recent_sign_in else ()),
            *(self.for_staff.errors if self.for_staff else ()),
        )

    @property
    def is_for_staff_only(self) -> bool:
        """Whether no other role may call."""
        return bool(self.permissions) or self.roles == frozenset({"staff"})

    def ensure_allowed(self, caller: Caller) -> None:
        """Check that a caller may use the route. The API documents the order of these checks.

        :raises AccountNotActiveError: the account is restricted or suspended
        :raises RoleRequiredError: the account has another role
        :raises PermissionRequiredError: the account lacks the permission
        :raises StepUpRequiredError: the token's assurance level is too low
        """
        is_open = self.open_to_restricted or (self.open_while_deleting and caller.is_deletion_pending)
        if caller.account_status != "active" and not is_open:
            raise AccountNotActiveError(texts.ACCOUNT_NOT_ACTIVE.format(status=caller.account_status))
        if self.roles is not None and caller.role not in self.roles:
            raise RoleRequiredError(f"Your account must have the role {' or '.join(sorted(self.roles))}.")
        if self.permissions and not (caller.is_staff and caller.permissions.intersection(self.permissions)):
            raise PermissionRequiredError(
                f"Your account needs the permission {' or '.join(self.permissions)}."
            )
        if self.aal2 and caller.aal != "aal2":
            raise StepUpRequiredError
        if self.for_staff and caller.is_staff:
            self.for_staff.ensure_allowed(caller)


UNCHECKED = Access("Webhook or probe", TokenPolicy.NONE)
FUNCTION_CALLER = Access("Functions key or signature", TokenPolicy.FUNCTION)
PUBLIC = Access("Public", TokenPolicy.IGNORED_IF_INVALID)
OPTIONAL = Access("Optional", TokenPolicy.CHECKED_IF_GIVEN)
AUTHENTICATED = Access("Authenticated", TokenPolicy.REQUIRED)
AUTHENTICATED_ANY_STATUS = Access(
    "Authenticated, whatever the account's status", TokenPolicy.REQUIRED, open_to_restricted=True
)
AUTHENTICATED_RECENTLY = replace(
    AUTHENTICATED_ANY_STATUS,
    name="Authenticated in the last 15 minutes, whatever the account's status",
    recent_sign_in=True,
)
AUTHENTICATED_OR_DELETING = replace(
    AUTHENTICATED, name="Authenticated, also while the deletion is pending", open_while_deleting=True
)
VENDOR = Access("Vendor", TokenPolicy.REQUIRED, roles=frozenset({"vendor"}))
VENDOR_ANY_STATUS = replace(VENDOR, name="Vendor, whatever the account's status", open_to_restricted=True)
VENDOR_OR_STAFF = Access("Vendor or Staff", TokenPolicy.REQUIRED, roles=frozenset({"vendor", "staff"}))
VENDOR_OR_STAFF_OR_DELETING = replace(
    VENDOR_OR_STAFF, name="Vendor or Staff, also while the deletion is pending", open_while_deleting=True
)
STAFF = Access("Staff", TokenPolicy.REQUIRED, roles=frozenset({"staff"}))
STAFF_AAL2 = replace(STAFF, name="Staff (AAL2)", aal2=True)


def _staff_with(*permissions: str, aal2: bool = False) -> Access:
    name = f"Staff ({' or '.join(permissions)}{', AAL2' if aal2 else ''})"
    return Access(name, TokenPolicy.REQUIRED, permissions=permissions, aal2=aal2)


FINANCE = _staff_with(MANAGE_FINANCES)
FINANCE_AAL2 = _staff_with(MANAGE_FINANCES, aal2=True)
BUYER_OR_VENDOR = Access("Buyer or Vendor", TokenPolicy.REQUIRED, roles=frozenset({"buyer", "vendor"}))
BUYER_OR_VENDOR_ANY_STATUS = replace(
    BUYER_OR_VENDOR, name="Buyer or Vendor, whatever the account's status", open_to_restricted=True
)
DISPUTE_STAFF = _staff_with(MANAGE_DISPUTES)
DISPUTE_STAFF_AAL2 = _staff_with(MANAGE_DISPUTES, aal2=True)
ORDER_STAFF = _staff_with(MANAGE_ORDERS)
PLATFORM_STAFF = _staff_with(MANAGE_PLATFORM)
# The kind of a proposal decides which of these permissions is necessary.
PROPOSAL_STAFF = _staff_with(MANAGE_PLATFORM, MANAGE_FINANCES)
PROPOSAL_STAFF_AAL2 = _staff_with(MANAGE_PLATFORM, MANAGE_FINANCES, aal2=True)
PRODUCT_STAFF = _staff_with(MANAGE_PRODUCTS)
CHAT_STAFF = _staff_with(MANAGE_SUPPORT, MANAGE_PRODUCTS)
SUPPORT_STAFF = _staff_with(MANAGE_SUPPORT)
COMPLIANCE_STAFF = _staff_with(MANAGE_COMPLIANCE)
COMPLIANCE_STAFF_AAL2 = _staff_with(MANAGE_COMPLIANCE, aal2=True)
AUDIT_STAFF = _staff_with(VIEW_AUDIT)
USER_STAFF = _staff_with(MANAGE_USERS)
# The type of the reported content decides which of these permissions is necessary.
REPORT_STAFF = _staff_with(MANAGE_PRODUCTS, MANAGE_USERS)
USER_STAFF_AAL2 = _staff_with(MANAGE_USERS, aal2=True)
VENDOR_STAFF = _staff_with(MANAGE_VENDORS)


VENDOR_OR_FINANCE_AAL2 = replace(
    VENDOR_OR_STAFF_OR_DELETING, name="Vendor, or Staff (canManageFinances, AAL2)", for_staff=FINANCE_AAL2
)


class RateLimitTier(Enum):
    """Shared quotas per minute, counted by address for anonymous callers and by user for all others."""

    ANONYMOUS = "60/minute"
    BUYER = "300/minute"
    MERCHANT = "600/minute"
    SENSITIVE = "10/minute"
    ASSISTANT = "20/minute"


class SharedLimit(Enum):
    """The tier that a route without its own limit counts on."""

    CALLER_TIER = "the caller's tier"
    MERCHANT_TIER = "the merchant tier"
    UNLIMITED = "not limited"


@dataclass(frozen=True)
class RouteLimit:
    """A route's own limit, which replaces the tier. Routes with the same scope share one count."""

    quota: str
    scope: str


class Idempotency(Enum):
    """Treatment of the Idempotency-Key header by a route."""

    NONE = "not read"
    OPTIONAL = "honoured"
    REQUIRED = "required"


class ProcessGroup(Enum):
    """The group of web processes that serves a route: ``API`` computes, ``WAITING`` waits for other services."""

    API = "api"
    WAITING = "waiting"


@dataclass(frozen=True)
class Upload:
    """A file in a multipart body, with the other fields of the form.

    ``accepts`` lists content types for the documentation only. The actual type is detected from the file's content.
    Without ``form``, the file is the only part of the body.
    """

    field: str
    max_bytes: int
    accepts: tuple[str, ...]
    form: Schema | None = None


@dataclass(frozen=True)
class Contract:
    """The declaration of a route. The edge enforces the contract before and after the view runs.

    ``choices`` lists path segments that accept only certain words, with those words.
    ``wait_seconds`` is the longest wait for a statement of the database.
    ``raises`` lists the domain's errors with a reason, and errors that the contract's other terms do not imply.
    ``max_body_bytes`` limits a JSON body. ``headers`` lists further headers of a successful response.
    ``errors`` adds the errors of the edge that have a reason. ``further_statuses`` have the same reply as ``status``.
    """

    name: str
    method: str
    path: str
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    access: Access
    limit: SharedLimit | RouteLimit
    body: Schema | None
    upload: Upload | None
    query: Schema | None
    reply: Schema | None
    meta: type[MetaSchema]
    status: int
    idempotency: Idempotency
    cache_seconds: int
    cache_tags: tuple[str, ...]
    phased: bool
    autocommit: bool
    enveloped: bool
    csv: bool
    pdf: bool
    plain: bool
    event_stream: bool
    group: ProcessGroup
    raises: tuple[type[MarketplaceError], ...]
    wait_seconds: float | None = None
    further_statuses: tuple[int, ...] = ()
    max_body_bytes: int = MAX_BODY_BYTES
    headers: tuple[str, ...] = ()
    deprecation: Deprecation | None = None

    @property
    def declared_wait_seconds(self) -> float | None:
        """The longest wait for a statement, or None for the limit of the kind of session.

        Exports and reports for staff may run until the server's statement time-out.
        """
        if self.wait_seconds is None and (self.csv or self.pdf or self.access.is_for_staff_only):
            return LONG_WAIT_SECONDS
        return self.wait_seconds

    @property
    def operation_id(self) -> str:
        """The operation's name in generated clients: the view's name in camelCase."""
        return camel_case(self.name.rpartition(".")[2])

    @property
    def errors(self) -> tuple[type[MarketplaceError], ...]:
        """The declared errors and the edge's errors with a reason, without duplicates."""
        has_key = self.idempotency is not Idempotency.NONE
        errors = [
            *self.access.errors,
            *((IdempotencyKeyReusedError, RequestInProgressError, RequestTakenOverError) if has_key else ()),
            *((ConcurrentChangeError,) if self.opens_transaction else ()),
            *self.raises,
        ]
        return tuple(dict.fromkeys(errors))

    @property
    def opens_transaction(self) -> bool:
        """Whether the edge opens a transaction for the route. For a phased route this is the last transaction.

        An event stream has no last transaction, because the response begins before the work ends.
        """
        return self.method not in ("GET", "HEAD") and not (self.autocommit or self.event_stream)
