"""Flash sales, banners, vibes and featured products."""

from alembic import op

revision = "1004"
down_revision = "1003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    # The database refuses overlapping sales, and overlapping featured periods, of the same product.
    op.execute("""
    CREATE TABLE flash_sales (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_flash_sales PRIMARY KEY,
        product_id uuid NOT NULL CONSTRAINT fk_flash_sales_product_id REFERENCES products,
        sale_price_minor bigint NOT NULL,
        percent_off bigint,
        quantity bigint,
        sold bigint NOT NULL DEFAULT 0,
        starts_at timestamptz NOT NULL,
        ends_at timestamptz NOT NULL,
        over_at timestamptz GENERATED ALWAYS AS (least(ends_at, ended_at)) STORED NOT NULL,
        created_by uuid NOT NULL CONSTRAINT fk_flash_sales_created_by REFERENCES profiles,
        ended_at timestamptz,
        ended_by uuid CONSTRAINT fk_flash_sales_ended_by REFERENCES profiles,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ex_flash_sales_product
            EXCLUDE USING gist (product_id WITH =, tstzrange(starts_at, over_at) WITH &&)
            WHERE (over_at IS NULL OR over_at > starts_at),
        CONSTRAINT ck_flash_sales_price CHECK (sale_price_minor BETWEEN 1 AND 10000000000),
        CONSTRAINT ck_flash_sales_percent_off CHECK (percent_off BETWEEN 1 AND 90),
        CONSTRAINT ck_flash_sales_quantity CHECK (quantity BETWEEN 1 AND 100000),
        CONSTRAINT ck_flash_sales_sold CHECK (sold >= 0 AND sold <= coalesce(quantity, sold)),
        CONSTRAINT ck_flash_sales_length CHECK (ends_at - starts_at <= interval '30 days'),
        CONSTRAINT ck_flash_sales_window CHECK (ends_at > starts_at)
    );
    COMMENT ON COLUMN flash_sales.percent_off IS 'Percentage that the sale price was computed from; null for a fixed price';
    CREATE INDEX ix_flash_sales_over ON flash_sales (over_at, id);
    CREATE INDEX ix_flash_sales_product ON flash_sales (product_id, over_at);
    CREATE INDEX ix_flash_sales_starts ON flash_sales (starts_at, id);
    """)
    # Products and sales refer to each other.
    op.execute(
        "ALTER TABLE products ADD CONSTRAINT fk_products_sale_id FOREIGN KEY (sale_id) REFERENCES flash_sales"
    )
    op.execute("""
    CREATE TABLE banners (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_banners PRIMARY KEY,
        title text NOT NULL,
        subtitle text,
        image_id uuid CONSTRAINT fk_banners_image_id REFERENCES images,
        image_url text,
        link text,
        placement text NOT NULL,
        campus_id uuid CONSTRAINT fk_banners_campus_id REFERENCES campuses,
        position bigint NOT NULL DEFAULT 0,
        starts_at timestamptz NOT NULL,
        ends_at timestamptz,
        over_at timestamptz GENERATED ALWAYS AS (least(ends_at, ended_at)) STORED,
        created_by uuid NOT NULL CONSTRAINT fk_banners_created_by REFERENCES profiles,
        ended_at timestamptz,
        ended_by uuid CONSTRAINT fk_banners_ended_by REFERENCES profiles,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_banners_picture CHECK (num_nonnulls(image_id, image_url) = 1),
        CONSTRAINT ck_banners_placement CHECK (placement IN ('hero', 'card')),
        CONSTRAINT ck_banners_position CHECK (position BETWEEN 0 AND 1000),
        CONSTRAINT ck_banners_window CHECK (ends_at > starts_at)
    );
    CREATE INDEX ix_banners_image_id ON banners (image_id);
    CREATE INDEX ix_banners_shown ON banners (position, id) WHERE ended_at IS NULL;
    """)
    op.execute("""
    CREATE TABLE vibes (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_vibes PRIMARY KEY,
        slug text NOT NULL,
        title text NOT NULL,
        description text NOT NULL DEFAULT '',
        image_id uuid CONSTRAINT fk_vibes_image_id REFERENCES images,
        image_url text,
        campus_id uuid CONSTRAINT fk_vibes_campus_id REFERENCES campuses,
        position bigint NOT NULL DEFAULT 0,
        starts_at timestamptz NOT NULL,
        ends_at timestamptz,
        over_at timestamptz GENERATED ALWAYS AS (least(ends_at, ended_at)) STORED,
        created_by uuid NOT NULL CONSTRAINT fk_vibes_created_by REFERENCES profiles,
        ended_at timestamptz,
        ended_by uuid CONSTRAINT fk_vibes_ended_by REFERENCES profiles,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_vibes_picture CHECK (num_nonnulls(image_id, image_url) <= 1),
        CONSTRAINT ck_vibes_position CHECK (position BETWEEN 0 AND 1000),
        CONSTRAINT ck_vibes_window CHECK (ends_at > starts_at)
    );
    CREATE UNIQUE INDEX uq_vibes_slug ON vibes (slug) WHERE ended_at IS NULL;
    CREATE INDEX ix_vibes_image_id ON vibes (image_id);
    CREATE INDEX ix_vibes_shown ON vibes (position, id) WHERE ended_at IS NULL;
    """)
    op.execute("""
    CREATE TABLE vibe_products (
        vibe_id uuid NOT NULL CONSTRAINT fk_vibe_products_vibe_id REFERENCES vibes,
        position bigint NOT NULL,
        product_id uuid NOT NULL CONSTRAINT fk_vibe_products_product_id REFERENCES products,
        CONSTRAINT pk_vibe_products PRIMARY KEY (vibe_id, position),
        CONSTRAINT uq_vibe_products_product UNIQUE (vibe_id, product_id),
        CONSTRAINT ck_vibe_products_position CHECK (position BETWEEN 0 AND 49)
    );
    CREATE INDEX ix_vibe_products_product_id ON vibe_products (product_id);
    """)
    op.execute("""
    CREATE TABLE featured_products (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_featured_products PRIMARY KEY,
        product_id uuid NOT NULL CONSTRAINT fk_featured_products_product_id REFERENCES products,
        campus_id uuid NOT NULL CONSTRAINT fk_featured_products_campus_id REFERENCES campuses,
        position bigint NOT NULL DEFAULT 0,
        starts_at timestamptz NOT NULL,
        ends_at timestamptz,
        over_at timestamptz GENERATED ALWAYS AS (least(ends_at, ended_at)) STORED,
        created_by uuid NOT NULL CONSTRAINT fk_featured_products_created_by REFERENCES profiles,
        ended_at timestamptz,
        ended_by uuid CONSTRAINT fk_featured_products_ended_by REFERENCES profiles,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ex_featured_products_product
            EXCLUDE USING gist (product_id WITH =, tstzrange(starts_at, over_at) WITH &&)
            WHERE (over_at IS NULL OR over_at > starts_at),
        CONSTRAINT ck_featured_products_position CHECK (position BETWEEN 0 AND 1000),
        CONSTRAINT ck_featured_products_window CHECK (ends_at > starts_at)
    );
    COMMENT ON COLUMN featured_products.campus_id IS 'Campus of the product';
    CREATE INDEX ix_featured_products_shown ON featured_products (position, id) WHERE ended_at IS NULL;
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("ALTER TABLE products DROP CONSTRAINT fk_products_sale_id")
    op.execute("DROP TABLE featured_products, vibe_products, vibes, banners, flash_sales")
