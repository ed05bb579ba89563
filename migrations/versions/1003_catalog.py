"""Categories, images, products, banned terms and product counters."""

from alembic import op

revision = "1003"
down_revision = "1002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE categories (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_categories PRIMARY KEY,
        parent_id uuid CONSTRAINT fk_categories_parent_id REFERENCES categories,
        name text NOT NULL,
        slug text NOT NULL,
        position bigint NOT NULL DEFAULT 0,
        lineage uuid[] NOT NULL,
        commission_bps bigint,
        CONSTRAINT uq_categories_slug UNIQUE (slug)
    );
    CREATE INDEX ix_categories_lineage ON categories USING gin (lineage);
    CREATE INDEX ix_categories_parent_id ON categories (parent_id);
    """)
    op.execute("""
    CREATE TABLE images (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_images PRIMARY KEY,
        owner_id uuid CONSTRAINT fk_images_owner_id REFERENCES profiles,
        key text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        content_hash text,
        content_type text,
        width bigint,
        height bigint,
        renditions jsonb NOT NULL DEFAULT '[]',
        status text NOT NULL DEFAULT 'ready',
        unused_since timestamptz DEFAULT now(),
        CONSTRAINT ck_images_size CHECK (width > 0 AND height > 0),
        CONSTRAINT ck_images_status CHECK (status IN ('pending', 'ready', 'deleting', 'deleted'))
    );
    COMMENT ON COLUMN images.key IS 'Object key of the rendition for cards';
    COMMENT ON COLUMN images.content_hash IS
        'Hash of the uploaded file and of the version of the rendition recipe';
    COMMENT ON COLUMN images.content_type IS 'Media type of the uploaded file, detected from the content';
    COMMENT ON COLUMN images.width IS 'Width of the uploaded image in upright orientation, in pixels';
    COMMENT ON COLUMN images.unused_since IS 'Earliest time since when the image is unused; null while in use';
    CREATE UNIQUE INDEX uq_images_owner_content ON images (owner_id, content_hash)
        WHERE status IN ('pending', 'ready');
    CREATE INDEX ix_images_content ON images (content_hash);
    CREATE INDEX ix_images_key ON images (key);
    CREATE INDEX ix_images_owner_id ON images (owner_id);
    CREATE INDEX ix_images_unused ON images (unused_since) WHERE unused_since IS NOT NULL;
    """)
    # Reservations change no indexed column. Room on the page saves an entry in each index.
    op.execute("""
    CREATE TABLE products (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_products PRIMARY KEY,
        vendor_id uuid NOT NULL CONSTRAINT fk_products_vendor_id REFERENCES vendor_profiles,
        campus_id uuid NOT NULL CONSTRAINT fk_products_campus_id REFERENCES campuses,
        category_id uuid NOT NULL CONSTRAINT fk_products_category_id REFERENCES categories,
        title text NOT NULL,
        description text NOT NULL DEFAULT '',
        price_minor bigint NOT NULL,
        condition text NOT NULL,
        quantity bigint NOT NULL,
        reserved bigint NOT NULL DEFAULT 0,
        available bigint GENERATED ALWAYS AS (quantity - reserved) STORED NOT NULL,
        tags text[] NOT NULL DEFAULT '{}',
        cover_key text,
        status text NOT NULL,
        status_reason text,
        popularity bigint NOT NULL DEFAULT 0,
        rating_sum bigint NOT NULL DEFAULT 0,
        rating_count bigint NOT NULL DEFAULT 0,
        rating_bayes bigint GENERATED ALWAYS AS ((rating_sum * 1000 + 15000) / (rating_count + 5)) STORED NOT NULL,
        screened_at timestamptz,
        published_at timestamptz,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        deleted_at timestamptz,
        review_round bigint NOT NULL DEFAULT 0,
        held boolean NOT NULL DEFAULT false,
        needs_staff boolean NOT NULL DEFAULT false,
        review_reasons text[] NOT NULL DEFAULT '{}',
        moderated_at timestamptz NOT NULL DEFAULT now(),
        sale_id uuid,
        sale_price_minor bigint,
        sale_starts_at timestamptz,
        sale_ends_at timestamptz,
        sale_left bigint,
        exclusive boolean NOT NULL DEFAULT false,
        CONSTRAINT ck_products_price CHECK (price_minor BETWEEN 100 AND 10000000000),
        CONSTRAINT ck_products_condition CHECK (condition IN ('new', 'like_new', 'good', 'fair')),
        CONSTRAINT ck_products_quantity CHECK (quantity BETWEEN 0 AND 100000),
        CONSTRAINT ck_products_reserved CHECK (reserved BETWEEN 0 AND quantity),
        CONSTRAINT ck_products_held CHECK (NOT held OR status = 'in_review'),
        CONSTRAINT ck_products_status
            CHECK (status IN ('draft', 'in_review', 'published', 'rejected', 'paused', 'removed', 'deleted')),
        CONSTRAINT ck_products_sale
            CHECK (num_nonnulls(sale_id, sale_price_minor, sale_starts_at, sale_ends_at) IN (0, 4)
                AND (sale_left IS NULL OR (sale_id IS NOT NULL AND sale_left >= 0)))
    ) WITH (fillfactor = 80);
    COMMENT ON COLUMN products.rating_bayes IS
        'Bayesian average in thousandths of a star, with five assumed ratings of 3 to temper few ratings';
    COMMENT ON COLUMN products.screened_at IS
        'When the current content passed the review; null after a change that must be screened';
    COMMENT ON COLUMN products.review_round IS
        'Incremented with each submission for screening; results of earlier rounds are dropped';
    COMMENT ON COLUMN products.held IS 'In review: true while the listing waits for staff after the screening';
    COMMENT ON COLUMN products.needs_staff IS
        'Staff rejected or removed the listing, so the screening alone cannot publish it again';
    COMMENT ON COLUMN products.moderated_at IS
        'Start of the current moderation state: submitted, held, rejected, removed or approved';
    COMMENT ON COLUMN products.sale_left IS 'Units left in the sale; null without a limit';
    CREATE INDEX ix_products_popular ON products (popularity DESC, id DESC) WHERE status = 'published';
    CREATE INDEX ix_products_campus_newest ON products (campus_id, published_at DESC, id DESC)
        WHERE status = 'published';
    CREATE INDEX ix_products_category_price ON products (category_id, campus_id, price_minor, id)
        WHERE status = 'published';
    CREATE INDEX ix_products_category_newest ON products (category_id, published_at DESC, id DESC)
        WHERE status = 'published';
    CREATE INDEX ix_products_price ON products (price_minor, id) WHERE status = 'published';
    CREATE INDEX ix_products_moderation ON products (status, held, moderated_at, id)
        WHERE status IN ('in_review', 'rejected', 'removed');
    CREATE INDEX ix_products_vendor ON products (vendor_id, created_at DESC);
    CREATE INDEX ix_products_inventory ON products (vendor_id, updated_at DESC, id DESC) WHERE status <> 'deleted';
    CREATE INDEX ix_products_exclusive ON products (published_at DESC, id DESC)
        WHERE status = 'published' AND exclusive;
    CREATE INDEX ix_products_newest ON products (published_at DESC, id DESC) WHERE status = 'published';
    CREATE INDEX ix_products_rating ON products (rating_bayes DESC, id DESC) WHERE status = 'published';
    """)
    op.execute("""
    CREATE TABLE product_images (
        product_id uuid NOT NULL CONSTRAINT fk_product_images_product_id REFERENCES products,
        position bigint NOT NULL,
        image_id uuid NOT NULL CONSTRAINT fk_product_images_image_id REFERENCES images,
        CONSTRAINT pk_product_images PRIMARY KEY (product_id, position),
        CONSTRAINT ck_product_images_position CHECK (position BETWEEN 0 AND 7)
    );
    CREATE INDEX ix_product_images_image_id ON product_images (image_id);
    """)
    op.execute("""
    CREATE TABLE banned_terms (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_banned_terms PRIMARY KEY,
        term text NOT NULL,
        category text NOT NULL,
        exceptions text[] NOT NULL DEFAULT '{}',
        note text,
        created_by uuid CONSTRAINT fk_banned_terms_created_by REFERENCES profiles,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_banned_terms_term UNIQUE (term),
        CONSTRAINT ck_banned_terms_category
            CHECK (category IN ('weapon', 'drug', 'medicine', 'exam_malpractice', 'forgery', 'adult',
                'alcohol_tobacco', 'wildlife', 'other'))
    );
    """)
    op.execute("""
    CREATE TABLE product_counts (
        product_id uuid CONSTRAINT pk_product_counts PRIMARY KEY
            CONSTRAINT fk_product_counts_product_id REFERENCES products,
        views bigint NOT NULL DEFAULT 0,
        cart_adds bigint NOT NULL DEFAULT 0,
        shares bigint NOT NULL DEFAULT 0,
        trending bigint,
        recount_at timestamptz
    );
    COMMENT ON COLUMN product_counts.trending IS
        'Rank key of trending products: logarithm of the decayed score, independent of the current time';
    COMMENT ON COLUMN product_counts.recount_at IS
        'When trending must be recomputed: after a counted event, or when an hour leaves the window';
    CREATE INDEX ix_product_counts_recount_at ON product_counts (recount_at) WHERE recount_at IS NOT NULL;
    CREATE INDEX ix_product_counts_trending ON product_counts (trending DESC, product_id DESC)
        WHERE trending IS NOT NULL;
    """)
    op.execute("""
    CREATE TABLE product_statistics (
        product_id uuid NOT NULL CONSTRAINT fk_product_statistics_product_id REFERENCES products,
        hour timestamptz NOT NULL,
        views bigint NOT NULL DEFAULT 0,
        cart_adds bigint NOT NULL DEFAULT 0,
        shares bigint NOT NULL DEFAULT 0,
        CONSTRAINT pk_product_statistics PRIMARY KEY (product_id, hour)
    );
    CREATE INDEX ix_product_statistics_hour ON product_statistics (hour);
    """)
    op.execute("""
    CREATE TABLE statistics_batches (
        id uuid CONSTRAINT pk_statistics_batches PRIMARY KEY,
        applied_at timestamptz NOT NULL
    );
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("""
    DROP TABLE statistics_batches, product_statistics, product_counts, banned_terms, product_images,
        products, images, categories
    """)
