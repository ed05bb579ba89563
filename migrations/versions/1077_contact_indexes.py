"""Indexes of encrypted contacts."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, outside_transaction

revision = "1077"
down_revision = "1076"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the indexes, and drop the indexes of the plain values."""
    build_index(
        "uq_profiles_verified_phone_index",
        "profiles",
        ["phone_index"],
        unique=True,
        postgresql_where=sa.text("phone_verified_at IS NOT NULL"),
    )
    build_index(
        "ix_profiles_phone_index",
        "profiles",
        ["phone_index"],
        postgresql_where=sa.text("phone_index IS NOT NULL"),
    )
    build_index("uq_support_contacts_sender_index", "support_contacts", ["sender_index"], unique=True)
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_profiles_verified_phone")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_profiles_phone")


def downgrade() -> None:
    """Build the earlier indexes, and drop the indexes of the encrypted values."""
    build_index(
        "uq_profiles_verified_phone",
        "profiles",
        ["phone"],
        unique=True,
        postgresql_where=sa.text("phone_verified_at IS NOT NULL"),
    )
    build_index("ix_profiles_phone", "profiles", ["phone"], postgresql_where=sa.text("phone IS NOT NULL"))
    with outside_transaction():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_support_contacts_sender_index")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_profiles_phone_index")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_profiles_verified_phone_index")
