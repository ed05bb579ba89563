"""All areas, in the order of the specification."""

from blueprints.alerts.routes import area as alerts
from blueprints.background.routes import area as background
from blueprints.cart.routes import area as cart
from blueprints.catalog.browse.routes import area as discovery
from blueprints.catalog.browse.vendor_inventory import area as inventory
from blueprints.catalog.moderation.routes import area as moderation
from blueprints.catalog.products.images import area as images
from blueprints.catalog.products.routes import area as catalog
from blueprints.catalog.promotions.routes import (
    banner_area as banners,
    featured_area as featured,
    flash_sale_area as flash_sales,
    vibe_area as vibes,
)
from blueprints.catalog.search.routes import area as search
from blueprints.health.routes import area as health
from blueprints.http.contract import Contract
from blueprints.http.endpoint import ContractBlueprint
from blueprints.orders.routes import (
    area as orders,
    audit_area as order_audit,
    campus_area as campus_orders,
    money_area as order_money,
)
from blueprints.payments.banks import area as banks
from blueprints.payments.refunds import area as refunds
from blueprints.payments.routes import area as payments
from blueprints.payments.statements import area as transactions
from blueprints.payouts.batches.routes import area as payout_batches
from blueprints.payouts.payees.routes import area as payouts
from blueprints.payouts.payees.vendor_debt import area as receivables
from blueprints.payouts.reconciliation.routes import area as reconciliation
from blueprints.payouts.stores.routes import area as vendors
from blueprints.payouts.transfers.routes import area as payout_dispatch
from blueprints.payouts.wallet.routes import area as wallet
from blueprints.platform.routes import area as platform, status_area as platform_status
from blueprints.users.routes import area as users
from blueprints.webhooks.admin import area as webhook_desk
from blueprints.webhooks.gateway import area as gateway_webhook, functions_area
from blueprints.webhooks.messaging import area as messaging_webhook

AREAS: tuple[ContractBlueprint, ...] = (
    catalog,
    search,
    featured,
    discovery,
    inventory,
    flash_sales,
    banners,
    vibes,
    images,
    moderation,
    cart,
    orders,
    order_audit,
    order_money,
    campus_orders,
    payments,
    gateway_webhook,
    banks,
    refunds,
    transactions,
    wallet,
    payout_dispatch,
    receivables,
    payouts,
    vendors,
    reconciliation,
    payout_batches,
    users,
    webhook_desk,
    messaging_webhook,
    alerts,
    background,
    platform,
    platform_status,
    health,
    functions_area,
)


def contracts() -> list[Contract]:
    """Give the contracts of all routes."""
    return [contract for area in AREAS for contract in area.contracts]
