"""The permissions of staff roles, as stored in ``admin_roles``."""

MANAGE_COMPLIANCE = "canManageCompliance"
MANAGE_DISPUTES = "canManageDisputes"
MANAGE_FINANCES = "canManageFinances"
MANAGE_ORDERS = "canManageOrders"
MANAGE_PLATFORM = "canManagePlatform"
MANAGE_PRODUCTS = "canManageProducts"
MANAGE_USERS = "canManageUsers"
MANAGE_SUPPORT = "canManageSupport"
MANAGE_VENDORS = "canManageVendors"
VIEW_AUDIT = "canViewAudit"
# Areas that are still to come use the others.
ALL = (
    MANAGE_DISPUTES,
    MANAGE_FINANCES,
    MANAGE_ORDERS,
    MANAGE_PLATFORM,
    MANAGE_PRODUCTS,
    MANAGE_SUPPORT,
    MANAGE_USERS,
    MANAGE_VENDORS,
    MANAGE_COMPLIANCE,
    VIEW_AUDIT,
)

STAFF_ROLES = ("admin", "finance", "orders", "support", "moderator", "compliance", "campus_rep")
