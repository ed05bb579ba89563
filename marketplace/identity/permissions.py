"""The permissions of staff roles, as stored in ``admin_roles``."""

MANAGE_FINANCES = "canManageFinances"
MANAGE_ORDERS = "canManageOrders"
MANAGE_PLATFORM = "canManagePlatform"
MANAGE_PRODUCTS = "canManageProducts"
