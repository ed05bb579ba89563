"""The permissions that staff roles hold, as ``admin_roles`` stores them."""

MANAGE_FINANCES = "canManageFinances"
MANAGE_ORDERS = "canManageOrders"
MANAGE_PLATFORM = "canManagePlatform"
MANAGE_PRODUCTS = "canManageProducts"
