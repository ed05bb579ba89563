"""Roll-ups of stores by day, and searches without results by category."""

from alembic import op

revision = "1040"
down_revision = "1039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE store_days (
        vendor_id uuid NOT NULL CONSTRAINT fk_store_days_vendor_id REFERENCES vendor_profiles,
        day date NOT NULL,
        orders bigint NOT NULL DEFAULT 0,
        units bigint NOT NULL DEFAULT 0,
        revenue_minor bigint NOT NULL DEFAULT 0,
        refunded_orders bigint NOT NULL DEFAULT 0,
        refunded_minor bigint NOT NULL DEFAULT 0,
        disputed_orders bigint NOT NULL DEFAULT 0,
        views bigint NOT NULL DEFAULT 0,
        cart_adds bigint NOT NULL DEFAULT 0,
        CONSTRAINT pk_store_days PRIMARY KEY (vendor_id, day),
        CONSTRAINT ck_store_days_not_negative CHECK (
            least(orders, units, revenue_minor, refunded_orders, refunded_minor, disputed_orders, views, cart_adds)
            >= 0)
    );
    COMMENT ON COLUMN store_days.revenue_minor IS
        'Totals of the paid orders, without the platform''s service fee';
    CREATE TABLE store_product_days (
        vendor_id uuid NOT NULL CONSTRAINT fk_store_product_days_vendor_id REFERENCES vendor_profiles,
        day date NOT NULL,
        product_id uuid NOT NULL CONSTRAINT fk_store_product_days_product_id REFERENCES products,
        units bigint NOT NULL DEFAULT 0,
        revenue_minor bigint NOT NULL DEFAULT 0,
        views bigint NOT NULL DEFAULT 0,
        cart_adds bigint NOT NULL DEFAULT 0,
        CONSTRAINT pk_store_product_days PRIMARY KEY (vendor_id, day, product_id)
    );
    CREATE TABLE store_day_buyers (
        vendor_id uuid NOT NULL CONSTRAINT fk_store_day_buyers_vendor_id REFERENCES vendor_profiles,
        day date NOT NULL,
        buyer_id uuid NOT NULL CONSTRAINT fk_store_day_buyers_buyer_id REFERENCES profiles,
        orders bigint NOT NULL,
        had_bought boolean NOT NULL,
        CONSTRAINT pk_store_day_buyers PRIMARY KEY (vendor_id, day, buyer_id)
    );
    COMMENT ON COLUMN store_day_buyers.had_bought IS
        'Whether the buyer had paid an order of the store before';
    CREATE TABLE analytics_progress (
        id bigint CONSTRAINT pk_analytics_progress PRIMARY KEY,
        event_id bigint NOT NULL,
        updated_at timestamptz NOT NULL,
        CONSTRAINT ck_analytics_progress_single CHECK (id = 1)
    );
    CREATE TABLE category_search_misses (
        category_id uuid NOT NULL CONSTRAINT fk_category_search_misses_category_id REFERENCES categories,
        day date NOT NULL,
        query text NOT NULL,
        count bigint NOT NULL DEFAULT 1,
        CONSTRAINT pk_category_search_misses PRIMARY KEY (category_id, day, query)
    );
    CREATE INDEX ix_category_search_misses_day ON category_search_misses (day);
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute(
        "DROP TABLE category_search_misses, analytics_progress, store_day_buyers, store_product_days, store_days"
    )
