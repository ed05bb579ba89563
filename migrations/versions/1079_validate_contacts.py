"""Validated constraints of encrypted contacts."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1079"
down_revision = "1078"
branch_labels = None
depends_on = None

_ENCRYPTED = "'^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$'"
_CONSTRAINTS = (
    ("profiles", "ck_profiles_phone", f"phone ~ {_ENCRYPTED}"),
    ("profiles", "ck_profiles_phone_index", "(phone IS NULL) = (phone_index IS NULL)"),
    ("addresses", "ck_addresses_phone", f"phone ~ {_ENCRYPTED}"),
    ("former_contacts", "ck_former_contacts_contact", f"contact ~ {_ENCRYPTED}"),
    ("former_contacts", "ck_former_contacts_indexed", "contact_index IS NOT NULL"),
    ("support_contacts", "ck_support_contacts_sender", f"sender ~ {_ENCRYPTED}"),
    ("support_contacts", "ck_support_contacts_phone", f"phone ~ {_ENCRYPTED}"),
    ("orders", "ck_orders_delivery_phone", f"delivery_phone ~ {_ENCRYPTED}"),
)


def upgrade() -> None:
    """Validate the constraints."""
    for table, name, _condition in _CONSTRAINTS:
        validate_constraint(table, name)


def downgrade() -> None:
    """Return the constraints to their state before the validation."""
    for table, name, condition in _CONSTRAINTS:
        op.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition}) NOT VALID"
        )
