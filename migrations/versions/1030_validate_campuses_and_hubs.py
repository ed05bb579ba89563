"""Validation of the constraints of hubs and e-mail domains, and the indexes of hub names and open pickups."""

import sqlalchemy as sa
from alembic import op

from migrations.operations import build_index, validate_constraint

revision = "1030"
down_revision = "1029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraints and build the indexes."""
    validate_constraint("campus_email_domains", "ck_campus_email_domains_domain")
    validate_constraint("hubs", "ck_hubs_weekly_hours")
    validate_constraint("hubs", "ck_hubs_coordinates")
    build_index(
        "uq_hubs_name",
        "hubs",
        ["campus_id", sa.text("lower(name)")],
        unique=True,
        postgresql_where=sa.text("active"),
    )
    build_index(
        "ix_orders_open_pickups",
        "orders",
        [sa.text("(shipping_address ->> 'hubId')")],
        postgresql_where=sa.text(
            "delivery_method = 'pickup' AND status IN ('paid_escrow', 'processing', 'shipped')"
        ),
    )


def downgrade() -> None:
    """Drop the indexes, and return the constraints to their state before the validation."""
    op.drop_index("ix_orders_open_pickups", "orders")
    op.drop_index("uq_hubs_name", "hubs")
    op.execute(
        """
        ALTER TABLE hubs
            DROP CONSTRAINT ck_hubs_weekly_hours,
            DROP CONSTRAINT ck_hubs_coordinates,
            ADD CONSTRAINT ck_hubs_weekly_hours CHECK (is_weekly_hours(weekly_hours)) NOT VALID,
            ADD CONSTRAINT ck_hubs_coordinates CHECK ((latitude IS NULL) = (longitude IS NULL)) NOT VALID
        """
    )
    op.execute(
        """
        ALTER TABLE campus_email_domains DROP CONSTRAINT ck_campus_email_domains_domain,
            ADD CONSTRAINT ck_campus_email_domains_domain CHECK (
                domain ~ '^[a-z0-9-]{1,63}([.][a-z0-9-]{1,63})+$' AND length(domain) <= 253) NOT VALID
        """
    )
