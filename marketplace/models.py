"""All tables in one place, for migrations."""

from marketplace.alerts import models as alerts
from marketplace.analytics import models as analytics
from marketplace.applications import models as applications
from marketplace.assistant import models as assistant
from marketplace.audit import models as audit
from marketplace.background import models as background
from marketplace.cart import models as cart
from marketplace.catalog import models as catalog
from marketplace.catalog.promotions import models as promotions
from marketplace.catalog.search import models as search
from marketplace.catalog.statistics import models as catalog_statistics
from marketplace.chat import models as chat
from marketplace.disputes import models as disputes
from marketplace.health import models as health
from marketplace.idempotency import models as idempotency
from marketplace.identity import models as identity
from marketplace.infra import outbox
from marketplace.infra.db import Base
from marketplace.ledger import models as ledger
from marketplace.media import models as media
from marketplace.notifications import models as notifications
from marketplace.orders import models as orders
from marketplace.payments import models as payments
from marketplace.payouts import models as payouts
from marketplace.platform import models as platform
from marketplace.privacy import models as privacy
from marketplace.proposals import models as proposals
from marketplace.reconciliation import models as reconciliation
from marketplace.referrals import models as referrals
from marketplace.reports import models as reports
from marketplace.reviews import models as reviews
from marketplace.support import models as support
from marketplace.vendors import models as vendors
from marketplace.webhooks import models as webhooks

__all__ = [
    "Base",
    "alerts",
    "analytics",
    "applications",
    "assistant",
    "audit",
    "background",
    "cart",
    "catalog",
    "catalog_statistics",
    "chat",
    "disputes",
    "health",
    "idempotency",
    "identity",
    "ledger",
    "media",
    "notifications",
    "orders",
    "outbox",
    "payments",
    "payouts",
    "platform",
    "privacy",
    "promotions",
    "proposals",
    "reconciliation",
    "referrals",
    "reports",
    "reviews",
    "search",
    "support",
    "vendors",
    "webhooks",
]

metadata = Base.metadata
