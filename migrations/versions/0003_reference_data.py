"""What every installation has: staff roles, the platform's fees, the ledger's own accounts."""

from uuid import UUID, uuid5

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_PERMISSIONS = {
    "admin": [
        "canManageOrders",
        "canManageFinances",
        "canManageProducts",
        "canManageVendors",
        "canManageUsers",
        "canManageSupport",
        "canManageDisputes",
        "canManagePlatform",
        "canViewAudit",
    ],
    "finance": ["canManageFinances"],
    "orders": ["canManageOrders"],
    "support": ["canManageSupport", "canManageDisputes"],
    "moderator": ["canManageProducts", "canManageVendors"],
    "compliance": ["canManageCompliance", "canViewAudit"],
    "campus_rep": [],
}

_SETTINGS = {
    "commission_bps": (
        500,
        "The platform's commission on items, in basis points, where the category has none",
    ),
    "service_fee_minor": (10_000, "The service fee on an order, in kobo"),
    "delivery_fee_minor": (50_000, "The delivery fee on an order that is delivered, in kobo"),
}

# As marketplace.ledger.accounts derives ids; repeated here, since migrations must not change with the code.
_NAMESPACE = UUID("5f0c2a44-5d0f-4b0e-9a51-6c1d7e8f9a10")
_ACCOUNTS = {
    "gateway_clearing": "debit",
    "bank": "debit",
    "gateway_fees": "debit",
    "escrow": "credit",
    "platform_revenue": "credit",
    "refunds_in_transit": "credit",
    "payouts_in_transit": "credit",
    "quarantine": "credit",
    "rewards": "credit",
}

_accounts = sa.table(
    "ledger_accounts", sa.column("id", sa.Uuid()), sa.column("kind"), sa.column("normal_side")
)
_roles = sa.table("admin_roles", sa.column("role"), sa.column("permissions", sa.ARRAY(sa.Text())))
_settings = sa.table(
    "platform_settings", sa.column("key"), sa.column("value", postgresql.JSONB()), sa.column("description")
)


def upgrade() -> None:
    """Insert them."""
    op.bulk_insert(_roles, [{"role": role, "permissions": held} for role, held in _PERMISSIONS.items()])
    op.bulk_insert(
        _settings,
        [{"key": key, "value": value, "description": doc} for key, (value, doc) in _SETTINGS.items()],
    )
    op.bulk_insert(
        _accounts,
        [
            {"id": uuid5(_NAMESPACE, kind), "kind": kind, "normal_side": side}
            for kind, side in _ACCOUNTS.items()
        ],
    )


def downgrade() -> None:
    """Delete them."""
    op.execute(sa.delete(_accounts).where(_accounts.c.kind.in_(_ACCOUNTS)))
    op.execute(sa.delete(_settings).where(_settings.c.key.in_(_SETTINGS)))
    op.execute(sa.delete(_roles).where(_roles.c.role.in_(_PERMISSIONS)))
