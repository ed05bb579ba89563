"""All route areas, in the order of the specification."""

from blueprints.alerts import routes as alerts
from blueprints.analytics import routes as analytics
from blueprints.applications import routes as applications
from blueprints.assistant import (
    routes as assistant,
    staff_routes as assistant_administration,
    thread_routes as assistant_threads,
)
from blueprints.audit import routes as audit
from blueprints.background import routes as background
from blueprints.campuses import routes as campuses
from blueprints.cart import routes as cart
from blueprints.catalog.browse import routes as browse
from blueprints.catalog.favorites import routes as favorites
from blueprints.catalog.moderation import routes as moderation
from blueprints.catalog.products import routes as products
from blueprints.catalog.promotions import routes as promotions
from blueprints.catalog.search import routes as search
from blueprints.chat import routes as chat
from blueprints.disputes import evidence_routes as dispute_evidence, routes as disputes
from blueprints.functions import routes as functions
from blueprints.health import incident_routes, objective_routes, routes as health, status_routes
from blueprints.http import ContractBlueprint
from blueprints.http.contract import Contract
from blueprints.notifications import devices, routes as notifications
from blueprints.orders import routes as orders
from blueprints.payments import refunds, routes as payments
from blueprints.payouts.batches import routes as payout_batches
from blueprints.payouts.payees import routes as payees, stores, wallet
from blueprints.payouts.reconciliation import routes as reconciliation
from blueprints.payouts.transfers import routes as transfers
from blueprints.people import routes as people
from blueprints.platform import csp_routes, routes as platform
from blueprints.privacy import (
    deletion_routes as account_deletion,
    erasure_routes as erasures,
    routes as privacy,
)
from blueprints.referrals import routes as referrals
from blueprints.reports import routes as reports
from blueprints.reviews import routes as reviews
from blueprints.support import routes as support, staff_routes as support_inbox, tools as support_tools
from blueprints.users import routes as users
from blueprints.webhooks import admin as webhook_admin, receiving

AREAS: tuple[ContractBlueprint, ...] = (
    products.area,
    search.area,
    promotions.featured_area,
    browse.area,
    browse.inventory_area,
    promotions.flash_sale_area,
    promotions.banner_area,
    promotions.vibe_area,
    products.image_area,
    moderation.area,
    cart.area,
    orders.area,
    orders.audit_area,
    orders.money_area,
    orders.campus_area,
    payments.area,
    receiving.gateway_area,
    payments.bank_area,
    refunds.area,
    payments.statement_area,
    wallet.area,
    transfers.area,
    payees.receivables_area,
    payees.area,
    stores.area,
    analytics.area,
    applications.area,
    applications.staff_area,
    reconciliation.area,
    payout_batches.area,
    users.area,
    chat.area,
    chat.send_area,
    chat.staff_area,
    notifications.area,
    devices.area,
    favorites.area,
    support.area,
    support_inbox.area,
    support_tools.area,
    disputes.area,
    dispute_evidence.area,
    privacy.area,
    account_deletion.area,
    account_deletion.requests_area,
    erasures.area,
    assistant.area,
    assistant_threads.area,
    assistant_administration.area,
    audit.area,
    reviews.store_area,
    reviews.product_area,
    reviews.author_area,
    reviews.area,
    reports.area,
    reports.staff_area,
    people.area,
    people.appeal_area,
    people.own_area,
    referrals.area,
    webhook_admin.area,
    receiving.messaging_area,
    alerts.area,
    background.area,
    campuses.area,
    campuses.operations_area,
    campuses.admin_area,
    campuses.shift_area,
    campuses.holiday_area,
    platform.area,
    status_routes.status_area,
    csp_routes.csp_area,
    health.area,
    incident_routes.incident_area,
    objective_routes.objective_area,
    objective_routes.timing_area,
    receiving.functions_area,
    functions.area,
)


def contracts() -> list[Contract]:
    """Return the contracts of all routes."""
    return [contract for area in AREAS for contract in area.contracts]
