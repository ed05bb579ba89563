"""Reviews of stores, and the products whose pages show the reviews."""

from alembic import op

revision = "1019"
down_revision = "1018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE reviews (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_reviews PRIMARY KEY,
        order_id uuid NOT NULL CONSTRAINT fk_reviews_order_id REFERENCES orders,
        vendor_id uuid NOT NULL CONSTRAINT fk_reviews_vendor_id REFERENCES vendor_profiles,
        author_id uuid NOT NULL CONSTRAINT fk_reviews_author_id REFERENCES profiles,
        rating bigint NOT NULL,
        text text,
        status text NOT NULL,
        refunded boolean NOT NULL DEFAULT false,
        counted boolean NOT NULL GENERATED ALWAYS AS (status = 'visible' AND NOT refunded) STORED,
        edited_at timestamptz,
        reply_text text,
        replied_at timestamptz,
        reply_edited_at timestamptz,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_reviews_order_id UNIQUE (order_id),
        CONSTRAINT ck_reviews_rating CHECK (rating BETWEEN 1 AND 5),
        CONSTRAINT ck_reviews_status CHECK (status IN ('visible', 'hidden', 'deleted')),
        CONSTRAINT ck_reviews_deleted_without_text CHECK ((status = 'deleted') = (text IS NULL)),
        CONSTRAINT ck_reviews_deleted_without_reply CHECK (status <> 'deleted' OR reply_text IS NULL),
        CONSTRAINT ck_reviews_replied CHECK ((reply_text IS NULL) = (replied_at IS NULL)),
        CONSTRAINT ck_reviews_reply_edited CHECK (reply_edited_at IS NULL OR replied_at IS NOT NULL)
    )
    """)
    op.execute("COMMENT ON COLUMN reviews.rating IS 'Stars, from 1 to 5'")
    op.execute(
        "COMMENT ON COLUMN reviews.refunded IS 'The order was refunded in full, so the rating does not count'"
    )
    op.execute("COMMENT ON COLUMN reviews.counted IS 'Whether the store''s rating includes this review'")
    op.execute("CREATE INDEX ix_reviews_author ON reviews (author_id, created_at DESC, id DESC)")
    op.execute("""
    CREATE INDEX ix_reviews_vendor_newest ON reviews (vendor_id, created_at DESC, id DESC) WHERE status = 'visible'
    """)
    op.execute("""
    CREATE INDEX ix_reviews_vendor_highest ON reviews (vendor_id, rating DESC, created_at DESC, id DESC)
        WHERE status = 'visible'
    """)
    op.execute("""
    CREATE INDEX ix_reviews_vendor_lowest ON reviews (vendor_id, rating, created_at DESC, id DESC)
        WHERE status = 'visible'
    """)
    op.execute("""
    CREATE TABLE review_products (
        review_id uuid NOT NULL CONSTRAINT fk_review_products_review_id REFERENCES reviews,
        product_id uuid NOT NULL CONSTRAINT fk_review_products_product_id REFERENCES products,
        reviewed_at timestamptz NOT NULL,
        CONSTRAINT pk_review_products PRIMARY KEY (review_id, product_id)
    )
    """)
    op.execute(
        "COMMENT ON COLUMN review_products.reviewed_at IS 'Creation of the review, repeated for the index'"
    )
    op.execute("""
    CREATE INDEX ix_review_products_newest ON review_products (product_id, reviewed_at DESC, review_id DESC)
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE review_products, reviews")
