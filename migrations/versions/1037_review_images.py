"""Pictures of reviews."""

from alembic import op

revision = "1037"
down_revision = "1036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute("""
    CREATE TABLE review_images (
        review_id uuid NOT NULL CONSTRAINT fk_review_images_review_id REFERENCES reviews,
        position bigint NOT NULL,
        image_id uuid NOT NULL CONSTRAINT fk_review_images_image_id REFERENCES images,
        CONSTRAINT pk_review_images PRIMARY KEY (review_id, position),
        CONSTRAINT uq_review_images_image_id UNIQUE (image_id),
        CONSTRAINT ck_review_images_position CHECK (position BETWEEN 0 AND 3)
    )
    """)


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE review_images")
