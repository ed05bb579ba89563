"""Settlement offers between the parties of a dispute."""

from alembic import op

revision = "1056"
down_revision = "1055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE dispute_offers (
            id uuid DEFAULT uuidv7() NOT NULL,
            dispute_id uuid NOT NULL,
            offered_by text NOT NULL,
            buyer_minor bigint NOT NULL,
            note text,
            status text NOT NULL,
            expires_at timestamptz NOT NULL,
            decided_at timestamptz,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_dispute_offers PRIMARY KEY (id),
            CONSTRAINT ck_dispute_offers_offered_by CHECK (offered_by IN ('buyer', 'vendor')),
            CONSTRAINT ck_dispute_offers_buyer_minor CHECK (buyer_minor >= 0),
            CONSTRAINT ck_dispute_offers_status CHECK (status IN ('pending', 'accepted', 'declined', 'replaced')),
            CONSTRAINT ck_dispute_offers_decided CHECK ((status = 'pending') = (decided_at IS NULL)),
            CONSTRAINT fk_dispute_offers_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id)
        );
        CREATE INDEX ix_dispute_offers_dispute ON dispute_offers (dispute_id, id);
        CREATE UNIQUE INDEX uq_dispute_offers_pending ON dispute_offers (dispute_id) WHERE status = 'pending';
        COMMENT ON COLUMN dispute_offers.buyer_minor IS
            'Refund of the settlement in kobo; the rest of the escrow is released';
        """
    )


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE dispute_offers")
