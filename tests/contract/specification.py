"""All rows of the interface specification.

A row defines access, rate limit, cache lifetime and idempotency of a route, and whether the route is built.
``test_route_contracts.py`` compares route contracts with these rows. Remove ``built=False`` when you build a row.
"""

from dataclasses import dataclass
from typing import Literal

Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True)
class RowAccess:
    """Access to a route: the token policy, roles and permissions.

    Staff must hold one of ``permissions``. ``restricted`` admits restricted and suspended accounts.
    """

    token: Literal["none", "functions key or signature", "ignored if bad", "checked if given", "required"] = (
        "required"
    )
    roles: frozenset[str] = frozenset()
    permissions: tuple[str, ...] = ()
    aal2: bool = False
    restricted: bool = False


@dataclass(frozen=True)
class Row:
    """A route of the specification.

    ``limit`` is a quota, ``global`` (the caller's tier), ``vendor`` or ``unlimited``. Rows with the same ``shares``
    count together. ``waits`` marks a route that waits for other services and runs in the waiting processes. A
    parameter in ``path`` is written ``:name``.
    """

    method: Method
    path: str
    access: RowAccess
    limit: str = "global"
    cache: int = 0  # seconds
    idempotency: Literal["not read", "honoured", "required"] = "not read"
    shares: str | None = None
    waits: bool = False
    built: bool = True


# Webhooks and probes authenticate by other means or not at all.
UNCHECKED = RowAccess("none")
FUNCTION_CALLER = RowAccess("functions key or signature")
PUBLIC = RowAccess("ignored if bad")
OPTIONAL = RowAccess("checked if given")
AUTHENTICATED = RowAccess()
# Ownership of a row (buyer, vendor or participant) is a scope: other callers get 404.
PARTIES = RowAccess(restricted=True)
ANY_STATUS = RowAccess(restricted=True)
VENDOR = RowAccess(roles=frozenset({"vendor"}))
VENDOR_ANY_STATUS = RowAccess(roles=frozenset({"vendor"}), restricted=True)
VENDOR_OR_STAFF = RowAccess(roles=frozenset({"vendor", "staff"}))
BUYER_OR_VENDOR = RowAccess(roles=frozenset({"buyer", "vendor"}))
BUYER_OR_VENDOR_ANY_STATUS = RowAccess(roles=frozenset({"buyer", "vendor"}), restricted=True)
STAFF = RowAccess(roles=frozenset({"staff"}))
STAFF_AAL2 = RowAccess(roles=frozenset({"staff"}), aal2=True)


def staff_with(*permissions: str, aal2: bool = False) -> RowAccess:
    """Return the access of staff with one of the permissions."""
    return RowAccess(roles=frozenset({"staff"}), permissions=permissions, aal2=aal2)


FINANCE = staff_with("canManageFinances")
FINANCE_AAL2 = staff_with("canManageFinances", aal2=True)
# Wallet adjustments need the second permission, all other kinds the first.
PROPOSALS = staff_with("canManagePlatform", "canManageFinances")
PROPOSALS_AAL2 = staff_with("canManagePlatform", "canManageFinances", aal2=True)

CATALOG = (
    Row("GET", "/api/products", PUBLIC, cache=300),
    Row("GET", "/api/products/search", PUBLIC, "60/minute"),
    Row("GET", "/api/products/trending", PUBLIC, cache=60),
    Row("GET", "/api/products/new-arrivals", PUBLIC, cache=60),
    Row("GET", "/api/products/exclusives", PUBLIC, cache=60),
    Row("GET", "/api/products/featured", PUBLIC, cache=300),
    Row("GET", "/api/products/categories", PUBLIC, cache=3600),
    Row("GET", "/api/products/suggestions", PUBLIC, cache=900),
    Row("POST", "/api/products/images", VENDOR_OR_STAFF, "60/15 minute", waits=True),
    Row("POST", "/api/products/bulk", PUBLIC),
    Row("GET", "/api/products/vendor/paginated", VENDOR, "vendor"),
    Row("GET", "/api/products/vendor/:id", OPTIONAL, cache=60),
    Row("GET", "/api/products/:id", OPTIONAL),
    Row("POST", "/api/products/:id/stats/:type", PUBLIC, "120/minute"),
    Row("POST", "/api/products", VENDOR_OR_STAFF, "vendor"),
    Row("PUT", "/api/products/:id", VENDOR, "vendor"),
    Row("DELETE", "/api/products/:id", VENDOR_OR_STAFF, "vendor"),
    Row("DELETE", "/api/products/bulk/delete", staff_with("canManageProducts"), "30/minute"),
    Row("GET", "/api/flash-sales/active", PUBLIC, cache=60),
    Row("GET", "/api/banners", PUBLIC, cache=300),
    Row("GET", "/api/vibes", PUBLIC, cache=300),
)

CART_AND_ORDERS = (
    Row("GET", "/api/cart", AUTHENTICATED),
    Row("POST", "/api/cart", AUTHENTICATED, "60/minute"),
    Row("DELETE", "/api/cart", AUTHENTICATED),
    Row("POST", "/api/orders", AUTHENTICATED, "30/minute", idempotency="honoured", shares="placing"),
    Row("GET", "/api/orders", ANY_STATUS),
    Row("GET", "/api/orders/vendor", VENDOR_ANY_STATUS),
    Row("GET", "/api/orders/vendor/counts", VENDOR_ANY_STATUS),
    Row("GET", "/api/orders/:id", PARTIES),
    Row("GET", "/api/orders/:id/events", PARTIES),
    Row("POST", "/api/orders/:id/accept", VENDOR_ANY_STATUS, "30/minute"),
    Row("POST", "/api/orders/:id/status", VENDOR_ANY_STATUS, "30/minute"),
    Row(
        "POST",
        "/api/orders/:id/verify-code",
        VENDOR_ANY_STATUS,
        "10/minute",
        idempotency="honoured",
        shares="PIN",
    ),
    Row("POST", "/api/orders/:id/cancel", PARTIES, "15/minute", idempotency="honoured"),
    Row("POST", "/api/orders/:id/confirm", PARTIES, "20/minute", idempotency="honoured"),
    Row("GET", "/api/orders/admin", staff_with("canManageOrders"), "60/minute"),
)

# Paths that the specification names outside of the tables.
NAMED_ALONGSIDE = (
    Row(
        "POST", "/api/orders/checkout", AUTHENTICATED, "30/minute",
        idempotency="required", shares="placing",
    ),
    Row(
        "POST", "/api/orders/:id/verify-delivery", VENDOR_ANY_STATUS, "10/minute",
        idempotency="required", shares="PIN",
    ),
    Row("GET", "/api/orders/:id/items", PARTIES),
    Row("POST", "/api/payments/intent", AUTHENTICATED, "15/minute", idempotency="required"),
    # The body decides: an officer with AAL2 dispatches a batch, and a vendor requests an early withdrawal.
    Row("POST", "/api/payouts/dispatch", VENDOR_OR_STAFF, "5/minute", idempotency="required"),
    Row("GET", "/api/payouts", VENDOR_OR_STAFF),
    Row("GET", "/api/campus-orders", STAFF),
    Row("GET", "/api/flash-sales", PUBLIC),
    Row("GET", "/api/vendors/:id/reviews", PUBLIC),
    Row("POST", "/api/vendors/:id/reviews", AUTHENTICATED),
    Row("GET", "/api/campuses/:id/hubs", PUBLIC),
)  # fmt: skip

PAYMENTS_AND_PAYOUTS = (
    Row("POST", "/api/payments/webhook", UNCHECKED, "unlimited"),
    Row("POST", "/api/payments/initialize", AUTHENTICATED, "15/minute", idempotency="required", waits=True),
    Row("POST", "/api/payments/verify", AUTHENTICATED, "30/minute", waits=True),
    Row("GET", "/api/payments/banks", AUTHENTICATED, waits=True),
    Row("POST", "/api/payments/bank/resolve", AUTHENTICATED, "10/minute", waits=True),
    Row("POST", "/api/payments/virtual-account", AUTHENTICATED, "5/minute", waits=True),
    Row("GET", "/api/transactions", AUTHENTICATED),
    Row(
        "POST", "/api/payments/order/:orderId/process-refund", FINANCE_AAL2, "10/minute",
        idempotency="honoured",
    ),
    Row("GET", "/api/payouts/batches", FINANCE, "30/minute"),
    Row("POST", "/api/payouts/batches", FINANCE, idempotency="honoured"),
    Row(
        "POST", "/api/payouts/batches/:id/approve", FINANCE_AAL2, "5/minute",
        idempotency="honoured",
    ),
    Row("POST", "/api/payouts/reconcile", FINANCE_AAL2, "5/minute"),
    Row("GET", "/api/payouts/reconciliations/:id", FINANCE),
)  # fmt: skip

USERS_AND_VENDORS = (
    Row("GET", "/api/users/me", ANY_STATUS),
    Row("PUT", "/api/users/me", AUTHENTICATED, "30/minute"),
    Row("POST", "/api/users/me/phone/code", AUTHENTICATED, "10/minute", waits=True),
    Row("POST", "/api/users/me/phone/confirm", AUTHENTICATED, "10/minute"),
    Row("POST", "/api/users/me/images", AUTHENTICATED, "60/15 minute", waits=True),
    Row("GET", "/api/users/me/addresses", AUTHENTICATED),
    Row("POST", "/api/users/me/addresses", AUTHENTICATED, "20/minute"),
    Row("PUT", "/api/users/me/addresses/:id", AUTHENTICATED, "20/minute"),
    Row("DELETE", "/api/users/me/addresses/:id", AUTHENTICATED, "20/minute"),
    Row("GET", "/api/users/favorites", AUTHENTICATED),
    Row("POST", "/api/users/favorites/toggle", AUTHENTICATED, "60/minute"),
    # The specification's misspelling, and the intended path.
    Row("GET", "/api/users/me/account-status", ANY_STATUS),
    Row("POST", "/api/users/content-flagsu", AUTHENTICATED, "20/hour", shares="flags"),
    Row("POST", "/api/users/content-flags", AUTHENTICATED, "20/hour", shares="flags"),
    Row("POST", "/api/vendors/applications", AUTHENTICATED, "5/hour", waits=True),
    Row("POST", "/api/vendors/applications/student-id", AUTHENTICATED, waits=True),
    Row("GET", "/api/vendors/applications/me", AUTHENTICATED),
    Row("GET", "/api/vendors/profile/:id", PUBLIC),
    Row("PUT", "/api/vendors/profile/:id", VENDOR, "20/minute", waits=True),
    Row("GET", "/api/vendors/:id/analytics", VENDOR, "30/minute"),
    Row("GET", "/api/vendors/slug/:slug/available", PUBLIC, "60/minute"),
)

ASSISTANT_CHAT_NOTIFICATIONS = (
    Row("POST", "/api/assistant/stream", AUTHENTICATED, "20/minute", waits=True),
    Row("POST", "/api/assistant/session-title", AUTHENTICATED, "30/minute", waits=True),
    Row("POST", "/api/assistant/support-reply", STAFF, "20/minute", waits=True),
    Row("GET", "/api/conversations", AUTHENTICATED),
    Row("GET", "/api/conversations/:id/messages", AUTHENTICATED),
    Row("POST", "/api/chat/send", AUTHENTICATED, "60/minute", idempotency="honoured"),
    Row("GET", "/api/whatsapp/webhook", UNCHECKED),
    Row("POST", "/api/whatsapp/webhook", UNCHECKED, "unlimited"),
    Row("GET", "/api/notifications", ANY_STATUS),
    Row("PUT", "/api/notifications/:id/read", ANY_STATUS),
)

# A restricted account may open and follow own tickets.
SUPPORT_AND_DISPUTES = (
    Row("POST", "/api/support", ANY_STATUS, "10/hour"),
    Row("GET", "/api/support/:id/messages", ANY_STATUS, waits=True),
    Row("POST", "/api/support/:id/messages", ANY_STATUS, "30/minute", waits=True),
    Row("PUT", "/api/support/:id/rate", ANY_STATUS, "10/minute"),
    Row("POST", "/api/disputes", BUYER_OR_VENDOR, "5/day"),
    Row("POST", "/api/disputes/:id/evidence", BUYER_OR_VENDOR_ANY_STATUS, "10/minute", waits=True),
    Row(
        "POST", "/api/disputes/:id/resolve", staff_with("canManageDisputes", aal2=True), "10/minute",
        idempotency="honoured",
    ),
)  # fmt: skip

COMPLIANCE = "canManageCompliance"
PRIVACY = (
    Row("POST", "/api/users/me/privacy-exports", ANY_STATUS, "5/hour"),
    Row("GET", "/api/users/me/privacy-exports", ANY_STATUS),
    # The route answers with a link, so no process waits for the archive.
    Row("GET", "/api/users/me/privacy-exports/:id/artifact", ANY_STATUS, "10/hour"),
    Row("POST", "/api/users/me/request-deletion", ANY_STATUS, "1/day"),
    Row("POST", "/api/users/me/cancel-deletion", ANY_STATUS),
    Row("POST", "/api/privacy/erasure-plans", staff_with(COMPLIANCE), "10/minute"),
    Row(
        "POST", "/api/privacy/erasure-executions", staff_with(COMPLIANCE, aal2=True), "5/minute"
    ),
)  # fmt: skip

PLATFORM_AND_HEALTH = (
    Row("GET", "/health/live", UNCHECKED, "unlimited", waits=True),
    Row("GET", "/health/liveness", UNCHECKED, "unlimited", waits=True),
    Row("GET", "/health/ready", UNCHECKED, "unlimited"),
    Row("GET", "/health/readiness", UNCHECKED, "unlimited", waits=True),
    Row("GET", "/health", UNCHECKED, "unlimited", waits=True),
    Row("GET", "/api/status", PUBLIC, cache=30),
    Row("POST", "/api/csp-report", PUBLIC, "30/15 minute"),
    Row("GET", "/api/campus/operations/hubs", STAFF),
    Row("POST", "/api/platform/proposals", PROPOSALS, "10/minute"),
    Row("POST", "/api/platform/proposals/:id/approve", PROPOSALS_AAL2, "5/minute"),
    Row("GET", "/api/admin/queues", STAFF_AAL2),
)  # fmt: skip

# The gateway's name stands in the first path: `gateway` unless configured.
FUNCTIONS = (
    Row("POST", "/functions/v1/:gateway-webhook", UNCHECKED, "unlimited"),
    Row("POST", "/functions/v1/deliver-notification", FUNCTION_CALLER, "unlimited"),
    Row("POST", "/functions/v1/inbound-email", FUNCTION_CALLER, "unlimited"),
    Row("POST", "/functions/v1/create-user", FUNCTION_CALLER, "unlimited"),
)

# Routes for behaviour that the specification leaves open, such as how staff edit public content.
PRODUCTS = "canManageProducts"
SUPPORT = "canManageSupport"
AUDIT = "canViewAudit"
VENDORS = "canManageVendors"
PLATFORM = staff_with("canManagePlatform")
ADDITIONS = (
    Row("GET", "/api/campuses", PUBLIC),
    Row("GET", "/api/admin/campuses", PLATFORM),
    Row("POST", "/api/admin/campuses", PLATFORM, "30/minute"),
    Row("PUT", "/api/admin/campuses/:id", PLATFORM, "30/minute"),
    Row("POST", "/api/admin/campuses/:id/domains", PLATFORM, "30/minute"),
    Row("DELETE", "/api/admin/campuses/:id/domains/:domain", PLATFORM, "30/minute"),
    Row("POST", "/api/admin/campuses/:id/hubs", PLATFORM, "30/minute"),
    Row("PUT", "/api/admin/campuses/:id/hubs/:hubId", PLATFORM, "30/minute"),
    Row("POST", "/api/admin/rep-shifts", PLATFORM, "30/minute"),
    Row("DELETE", "/api/admin/rep-shifts/:id", PLATFORM, "30/minute"),
    Row("GET", "/api/admin/public-holidays", STAFF),
    Row("POST", "/api/admin/public-holidays", PLATFORM, "30/minute"),
    Row("PUT", "/api/admin/public-holidays/:id", PLATFORM, "30/minute"),
    Row("GET", "/api/flash-sales/all", staff_with(PRODUCTS)),
    Row("POST", "/api/flash-sales", staff_with(PRODUCTS)),
    Row("PUT", "/api/flash-sales/:id", staff_with(PRODUCTS)),
    Row("POST", "/api/flash-sales/:id/end", staff_with(PRODUCTS)),
    Row("GET", "/api/products/search/misses", VENDOR_OR_STAFF),
    Row("GET", "/api/products/search/synonyms", staff_with(PRODUCTS)),
    Row("POST", "/api/products/search/synonyms", staff_with(PRODUCTS)),
    Row("PUT", "/api/products/search/synonyms/:id", staff_with(PRODUCTS)),
    Row("DELETE", "/api/products/search/synonyms/:id", staff_with(PRODUCTS)),
    Row("GET", "/api/products/moderation", staff_with(PRODUCTS)),
    Row("GET", "/api/products/moderation/banned-terms", staff_with(PRODUCTS)),
    Row("POST", "/api/products/moderation/banned-terms", staff_with(PRODUCTS)),
    Row("DELETE", "/api/products/moderation/banned-terms/:id", staff_with(PRODUCTS)),
    Row("POST", "/api/products/:id/approve", staff_with(PRODUCTS)),
    Row("POST", "/api/products/:id/reject", staff_with(PRODUCTS)),
    Row("POST", "/api/products/:id/takedown", staff_with(PRODUCTS)),
    Row("GET", "/api/vibes/:id", PUBLIC, cache=300),
    Row("POST", "/api/vendors/applications/me/answer", AUTHENTICATED, "20/minute"),
    Row("POST", "/api/vendors/applications/me/withdraw", AUTHENTICATED, "20/minute"),
    Row("GET", "/api/vendor-applications", staff_with(VENDORS)),
    Row("GET", "/api/vendor-applications/:id", staff_with(VENDORS)),
    *(
        Row("POST", f"/api/vendor-applications/:id/{action}", staff_with(VENDORS), "30/minute")
        for action in ("document", "start-review", "request-info", "approve", "reject")
    ),
    Row("GET", "/api/conversations/:id", AUTHENTICATED),
    Row("POST", "/api/conversations/:id/read", AUTHENTICATED, "60/minute"),
    *(
        Row(method, f"/api/conversations/:id/{action}", AUTHENTICATED, "60/minute")
        for action in ("mute", "block")
        for method in ("POST", "DELETE")
    ),
    Row("GET", "/api/conversations/:id/phone-exchange", AUTHENTICATED),
    Row("POST", "/api/conversations/:id/phone-exchange", AUTHENTICATED, "10/minute"),
    Row("DELETE", "/api/conversations/:id/phone-exchange", AUTHENTICATED, "10/minute"),
    Row("GET", "/api/disputes", ANY_STATUS),
    Row("GET", "/api/disputes/:id", ANY_STATUS),
    Row("POST", "/api/disputes/:id/response", ANY_STATUS, "10/minute"),
    Row("POST", "/api/disputes/:id/withdraw", ANY_STATUS, "10/minute"),
    Row("POST", "/api/disputes/:id/offers", ANY_STATUS, "10/minute"),
    Row("POST", "/api/disputes/:id/offers/:id/accept", ANY_STATUS, "10/minute", idempotency="honoured"),
    Row("POST", "/api/disputes/:id/offers/:id/decline", ANY_STATUS, "10/minute"),
    Row("GET", "/api/disputes/:id/evidence", ANY_STATUS),
    Row("GET", "/api/disputes/:id/evidence/:id", ANY_STATUS),
    Row("PUT", "/api/disputes/:id/evidence/:id", ANY_STATUS, "30/minute"),
    Row("DELETE", "/api/disputes/:id/evidence/:id", ANY_STATUS, "30/minute"),
    Row("PUT", "/api/disputes/:id/evidence/:id/visibility", staff_with("canManageDisputes"), "30/minute"),
    Row("GET", "/api/disputes/:id/facts", ANY_STATUS),
    Row("POST", "/api/disputes/:id/evidence-pack", staff_with("canManageDisputes"), "10/minute", waits=True),
    Row("POST", "/api/disputes/:id/return/sent", ANY_STATUS, "10/minute"),
    Row("POST", "/api/disputes/:id/return/received", ANY_STATUS, "10/minute", idempotency="honoured"),
    Row("POST", "/api/disputes/:id/appeal", ANY_STATUS, "10/minute"),
    Row(
        "POST",
        "/api/disputes/:id/appeal/decision",
        staff_with("canManageDisputes", aal2=True),
        "10/minute",
        idempotency="honoured",
    ),
    Row("POST", "/api/disputes/:id/findings", staff_with("canManageDisputes"), "30/minute"),
    Row("GET", "/api/support", ANY_STATUS),
    Row("GET", "/api/support/:id", ANY_STATUS),
    Row("POST", "/api/support/attachments", ANY_STATUS, "30/minute", waits=True),
    Row("GET", "/api/assistant/threads", ANY_STATUS),
    Row("GET", "/api/assistant/threads/:id/messages", ANY_STATUS),
    Row("DELETE", "/api/assistant/threads/:id", ANY_STATUS, "60/minute"),
    Row("POST", "/api/assistant/threads/:id/flag", ANY_STATUS, "10/minute"),
    Row("GET", "/api/assistant/preferences", ANY_STATUS),
    Row("PUT", "/api/assistant/preferences", ANY_STATUS, "60/minute"),
    Row("GET", "/api/admin/assistant/usage", staff_with(SUPPORT)),
    Row("GET", "/api/admin/assistant/usage/people", staff_with(SUPPORT)),
    Row("GET", "/api/admin/assistant/flagged-threads", staff_with(SUPPORT)),
    Row("GET", "/api/admin/assistant/flagged-threads/:id/messages", staff_with(SUPPORT)),
    Row("POST", "/api/admin/assistant/flagged-threads/:id/review", staff_with(SUPPORT), "60/minute"),
    Row("GET", "/api/admin/assistant/evaluations", staff_with(SUPPORT)),
    Row("GET", "/api/users/me/deletion-request", ANY_STATUS),
    Row("GET", "/api/privacy/erasure-executions/:id", staff_with("canManageCompliance")),
    Row("GET", "/api/privacy/signing-key", PUBLIC),
    Row("GET", "/api/admin/privacy-requests", staff_with("canManageCompliance")),
    Row("GET", "/api/admin/audit-logs", staff_with(AUDIT), "60/minute"),
    Row("GET", "/api/admin/support", staff_with(SUPPORT)),
    Row("GET", "/api/admin/support/duty", staff_with(SUPPORT)),
    Row("PUT", "/api/admin/support/duty", staff_with(SUPPORT), "60/minute"),
    Row("GET", "/api/admin/support/canned-replies", staff_with(SUPPORT)),
    Row("POST", "/api/admin/support/canned-replies", staff_with(SUPPORT), "60/minute"),
    Row("PUT", "/api/admin/support/canned-replies/:id", staff_with(SUPPORT), "60/minute"),
    Row("DELETE", "/api/admin/support/canned-replies/:id", staff_with(SUPPORT), "60/minute"),
    Row("GET", "/api/admin/support/views", staff_with(SUPPORT)),
    Row("POST", "/api/admin/support/views", staff_with(SUPPORT), "60/minute"),
    Row("DELETE", "/api/admin/support/views/:id", staff_with(SUPPORT), "60/minute"),
    Row("GET", "/api/admin/support/figures", staff_with(SUPPORT)),
    Row("GET", "/api/admin/support/:id", staff_with(SUPPORT)),
    Row("PUT", "/api/admin/support/:id", staff_with(SUPPORT), "60/minute"),
    Row("POST", "/api/admin/support/:id/assign", staff_with(SUPPORT), "60/minute"),
    Row("POST", "/api/admin/support/:id/note", staff_with(SUPPORT), "60/minute"),
    Row("POST", "/api/admin/support/:id/resolve", staff_with(SUPPORT), "60/minute"),
    Row("POST", "/api/admin/support/:id/close", staff_with(SUPPORT), "60/minute"),
    Row("POST", "/api/admin/support/:id/merge", staff_with(SUPPORT), "60/minute"),
    Row("GET", "/api/admin/blocked-messages", staff_with(SUPPORT, PRODUCTS)),
    Row("POST", "/api/admin/blocked-messages/:id/review", staff_with(SUPPORT, PRODUCTS), "60/minute"),
    Row("POST", "/api/notifications/read-all", ANY_STATUS, "60/minute"),
    Row("POST", "/api/notifications/unsubscribe", PUBLIC, "30/minute"),
    Row("GET", "/api/users/me/devices/push-key", AUTHENTICATED),
    Row("GET", "/api/notifications/stream", AUTHENTICATED, "30/minute", waits=True),
    Row("POST", "/api/users/me/devices", AUTHENTICATED, "20/minute"),
    Row("GET", "/api/users/me/devices", ANY_STATUS),
    Row("DELETE", "/api/users/me/devices/:id", ANY_STATUS, "20/minute"),
    Row("POST", "/api/users/me/appeal", ANY_STATUS, "5/day"),
    *(
        Row("POST", f"/api/admin/users/:id/{action}", staff_with("canManageUsers"), "30/minute")
        for action in ("restrict", "suspend", "reinstate")
    ),
    Row("GET", "/api/admin/appeals", staff_with("canManageUsers")),
    Row("POST", "/api/admin/appeals/:id/decide", staff_with("canManageUsers"), "30/minute"),
    Row("GET", "/api/users/me/referrals", AUTHENTICATED),
    Row("POST", "/api/users/me/referrals/code", AUTHENTICATED, "5/day"),
    *(
        row
        for path in ("/api/banners", "/api/vibes", "/api/products/featured")
        for row in (
            Row("GET", f"{path}/all", staff_with(PRODUCTS)),
            Row("POST", path, staff_with(PRODUCTS)),
            Row("PUT", f"{path}/:id", staff_with(PRODUCTS)),
            Row("DELETE", f"{path}/:id", staff_with(PRODUCTS)),
        )
    ),
    Row("GET", "/api/admin/reports", staff_with(PRODUCTS, "canManageUsers")),
    Row("GET", "/api/admin/reports/:id", staff_with(PRODUCTS, "canManageUsers")),
    Row("POST", "/api/admin/reports/:id/decide", staff_with(PRODUCTS, "canManageUsers"), "30/minute"),
    Row("GET", "/api/products/:id/reviews", PUBLIC),
    Row("GET", "/api/users/me/reviews", AUTHENTICATED),
    Row("PUT", "/api/reviews/:id", AUTHENTICATED, "30/minute"),
    Row("DELETE", "/api/reviews/:id", AUTHENTICATED, "30/minute"),
    Row("POST", "/api/reviews/:id/reply", VENDOR, "30/minute"),
    Row("PUT", "/api/reviews/:id/reply", VENDOR, "30/minute"),
    Row("GET", "/api/wallet", AUTHENTICATED),
    Row("GET", "/api/payouts/balance", VENDOR_OR_STAFF),
    Row("GET", "/api/payouts/statement", VENDOR_OR_STAFF, "10/minute"),
    Row("POST", "/api/payouts/:id/cancel", AUTHENTICATED, "10/minute", idempotency="honoured"),
    Row("GET", "/api/wallet/cash-outs", AUTHENTICATED),
    Row("POST", "/api/wallet/cash-outs", AUTHENTICATED, "10/minute", idempotency="honoured"),
    Row("GET", "/api/wallet/bank-account", AUTHENTICATED),
    Row("PUT", "/api/wallet/bank-account", AUTHENTICATED, "10/minute", waits=True),
    Row("GET", "/api/admin/periodic", STAFF_AAL2),
    Row("GET", "/api/orders/:id/money", PARTIES),
    Row("GET", "/api/payments/refunds", FINANCE),
    Row(
        "POST",
        "/api/payments/refunds/:id/retry",
        FINANCE_AAL2,
        "10/minute",
        idempotency="honoured",
        waits=True,
    ),
    Row(
        "POST",
        "/api/payments/refunds/:id/credit",
        FINANCE_AAL2,
        "10/minute",
        idempotency="honoured",
        waits=True,
    ),
    Row("GET", "/api/payments/quarantine", FINANCE),
    Row("POST", "/api/payments/quarantine/:id/resolve", FINANCE_AAL2, "10/minute", idempotency="honoured"),
    Row("GET", "/api/platform/halts", STAFF),
    Row("GET", "/api/platform/proposals", PROPOSALS),
    Row("GET", "/api/platform/proposals/:id", PROPOSALS),
    Row("POST", "/api/platform/proposals/:id/reject", PROPOSALS, "10/minute"),
    Row("GET", "/api/payouts/receivables", FINANCE),
    Row("GET", "/api/payouts/exceptions", FINANCE),
    Row("POST", "/api/payouts/exceptions/:id/resolve", FINANCE, "30/minute", idempotency="honoured"),
    Row("GET", "/api/payouts/stalled", FINANCE),
    Row("POST", "/api/payouts/:id/ask", FINANCE, "30/minute", idempotency="honoured"),
    Row("POST", "/api/payouts/:id/give-up", FINANCE_AAL2, "10/minute", idempotency="honoured"),
    Row("GET", "/api/payouts/reconciliations", FINANCE),
    Row("GET", "/api/payouts/reconciliations/:id/exceptions", FINANCE),
    Row(
        "POST",
        "/api/payouts/reconciliations/:id/exceptions/:exceptionId/resolve",
        FINANCE_AAL2,
        "10/minute",
        idempotency="honoured",
    ),
    Row("GET", "/api/payouts/batches/:id", FINANCE, "30/minute"),
    Row("POST", "/api/payouts/batches/:id/reject", FINANCE_AAL2, "5/minute", idempotency="honoured"),
    Row("POST", "/api/payouts/batches/:id/exclude", FINANCE_AAL2, "10/minute", idempotency="honoured"),
    Row("GET", "/api/admin/users", staff_with("canManageUsers")),
    Row("GET", "/api/admin/users/:id", staff_with("canManageUsers")),
    Row("PUT", "/api/admin/users/:id/staff-role", staff_with("canManageUsers", aal2=True), "10/minute"),
    Row(
        "POST", "/api/admin/users/:id/staff-role/revoke", staff_with("canManageUsers", aal2=True), "10/minute"
    ),
    Row("GET", "/api/admin/alerts", STAFF),
    Row("GET", "/api/admin/incidents", PLATFORM),
    Row("POST", "/api/admin/incidents", PLATFORM, "30/minute", idempotency="honoured"),
    Row("POST", "/api/admin/incidents/:id/notes", PLATFORM, "30/minute", idempotency="honoured"),
    Row("GET", "/api/admin/slo", STAFF),
    Row("POST", "/api/page-timings", PUBLIC, "60/minute"),
    Row("POST", "/api/admin/alerts/:id/resolve", STAFF, idempotency="honoured"),
    Row("GET", "/api/admin/webhooks", FINANCE),
    Row("GET", "/api/admin/webhooks/:id", FINANCE),
    Row("POST", "/api/admin/webhooks/:id/replay", FINANCE_AAL2, "30/minute", idempotency="honoured"),
)

ROWS: tuple[Row, ...] = (
    *CATALOG,
    *CART_AND_ORDERS,
    *NAMED_ALONGSIDE,
    *PAYMENTS_AND_PAYOUTS,
    *USERS_AND_VENDORS,
    *ASSISTANT_CHAT_NOTIFICATIONS,
    *SUPPORT_AND_DISPUTES,
    *PRIVACY,
    *PLATFORM_AND_HEALTH,
    *FUNCTIONS,
    *ADDITIONS,
)


def summary() -> str:
    """Return a line with the number of built rows."""
    built = sum(row.built for row in ROWS)
    return f"specification: {built} of {len(ROWS)} rows built, {len(ROWS) - built} to come"
