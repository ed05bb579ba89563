"""Encrypted phone numbers, replaced contacts and stored responses.

The version before this migration cannot read the encrypted values, so stop that version before the upgrade.
"""

import sqlalchemy as sa
from alembic import op

from marketplace.infra.encryption import BlindIndex, EncryptedText
from migrations.operations import backfill_rows

revision = "1076"
down_revision = "1075"
branch_labels = None
depends_on = None

_CONTACT, _CONTACT_INDEX = EncryptedText("contact"), BlindIndex("contact")
_RESPONSE = EncryptedText("idempotency_keys.response_text")
_COLUMNS = (
    ("profiles", "phone", "phone_index"),
    ("addresses", "phone", None),
    ("former_contacts", "contact", "contact_index"),
    ("support_contacts", "sender", "sender_index"),
    ("support_contacts", "phone", None),
)


def upgrade() -> None:
    """Encrypt the values."""
    for table, column, index in _COLUMNS:
        indexed = f", {index} = :index" if index else ""
        backfill_rows(
            f"SELECT id, {column} AS plain FROM {table} WHERE {column} NOT LIKE 'v1:%' LIMIT 500",
            f"UPDATE {table} SET {column} = :encrypted{indexed} WHERE id = :id AND {column} = :plain",
            lambda row: {
                **row,
                "encrypted": _CONTACT.encrypt(row["plain"]),
                "index": _CONTACT_INDEX.compute(row["plain"]),
            },
        )
    backfill_rows(
        "SELECT id, shipping_address ->> 'phone' AS plain FROM orders WHERE shipping_address ->> 'phone' IS NOT NULL"
        " LIMIT 500",
        "UPDATE orders SET delivery_phone = :encrypted, shipping_address = shipping_address - 'phone' WHERE id = :id",
        lambda row: {"id": row["id"], "encrypted": _CONTACT.encrypt(row["plain"])},
    )
    backfill_rows(
        "SELECT id, response_body FROM idempotency_keys WHERE response_body IS NOT NULL AND response_text IS NULL"
        " LIMIT 500",
        "UPDATE idempotency_keys SET response_text = :encrypted WHERE id = :id",
        lambda row: {"id": row["id"], "encrypted": _RESPONSE.encrypt(bytes(row["response_body"]).decode())},
    )


def downgrade() -> None:
    """Refuse a database with encrypted values, which the version before this migration cannot read.

    :raises RuntimeError: a column has encrypted values
    """
    for table, column, _index in _COLUMNS:
        found = sa.text(f"SELECT EXISTS (SELECT FROM {table} WHERE {column} LIKE 'v1:%')")
        if op.get_bind().scalar(found):
            raise RuntimeError(
                f"{table}.{column} has encrypted values. Restore a backup of the earlier version."
            )
