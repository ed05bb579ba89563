"""Favourites of people, and the time of a product's last restock."""

from alembic import op

revision = "1028"
down_revision = "1027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and the column."""
    op.execute("ALTER TABLE products ADD COLUMN restocked_at timestamptz")
    op.execute(
        "COMMENT ON COLUMN products.restocked_at IS 'When the sold-out product last had units again; null if never'"
    )
    op.execute("""
    CREATE TABLE favorites (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_favorites PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_favorites_user_id REFERENCES profiles,
        product_id uuid NOT NULL CONSTRAINT fk_favorites_product_id REFERENCES products,
        known_price_minor bigint NOT NULL,
        announced_restock_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_favorites_product_id_user_id UNIQUE (product_id, user_id),
        CONSTRAINT ck_favorites_known_price CHECK (known_price_minor > 0)
    );
    COMMENT ON COLUMN favorites.known_price_minor IS
        'The price in kobo at the time of the favourite, or of the last announced price drop';
    COMMENT ON COLUMN favorites.announced_restock_at IS 'The last restock announced';
    CREATE INDEX ix_favorites_user ON favorites (user_id, created_at DESC, id DESC);
    """)


def downgrade() -> None:
    """Drop the table and the column."""
    op.execute("DROP TABLE favorites")
    op.execute("ALTER TABLE products DROP COLUMN restocked_at")
