"""The table of all orders: each of its sorts in the order of an index, each filter found by one."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_PAID = sa.text("paid_at IS NOT NULL")
_ID = sa.text("id DESC")


def upgrade() -> None:
    """Make the indexes of sorts and filters, in the place of some that are parts of them now."""
    op.create_index("ix_orders_status", "orders", ["status", "created_at", "id"])
    op.create_index("ix_orders_total", "orders", ["total_minor", "id"])
    op.create_index("ix_orders_paid", "orders", [sa.text("paid_at NULLS FIRST"), "id"])
    op.create_index("ix_escrows_status", "escrows", ["status"])
    # Orders that nobody paid are looked for by store and campus too.
    for name in ("vendor", "campus"):
        op.drop_index(f"ix_orders_{name}", "orders")
        op.create_index(f"ix_orders_{name}", "orders", [f"{name}_id", _ID])
    # Of a status that orders do not stay in there are few: they are found by it.
    for name in ("accepting", "delivering"):
        op.drop_index(f"ix_orders_{name}", "orders")


def downgrade() -> None:
    """Make the indexes as they were."""
    op.create_index(
        "ix_orders_accepting", "orders", ["paid_at"], postgresql_where=sa.text("status = 'paid_escrow'")
    )
    op.create_index(
        "ix_orders_delivering", "orders", ["shipped_at"], postgresql_where=sa.text("status = 'shipped'")
    )
    for name in ("vendor", "campus"):
        op.drop_index(f"ix_orders_{name}", "orders")
        op.create_index(f"ix_orders_{name}", "orders", [f"{name}_id", _ID], postgresql_where=_PAID)
    op.drop_index("ix_escrows_status", "escrows")
    for name in ("paid", "total", "status"):
        op.drop_index(f"ix_orders_{name}", "orders")
