"""Disputes of orders, their timeline, and rulings that wait for a second officer."""

from alembic import op

revision = "1055"
down_revision = "1054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("CREATE SEQUENCE dispute_number START WITH 100001")
    op.execute(
        """
        CREATE TABLE disputes (
            id uuid DEFAULT uuidv7() NOT NULL,
            number text DEFAULT 'D-' || nextval('dispute_number')::text NOT NULL,
            order_id uuid NOT NULL,
            buyer_id uuid NOT NULL,
            vendor_user_id uuid NOT NULL,
            opened_by text NOT NULL,
            order_status text NOT NULL,
            reason text NOT NULL,
            description text NOT NULL,
            desired_outcome text NOT NULL,
            claimed_minor bigint,
            item_ids uuid[] DEFAULT '{}' NOT NULL,
            status text NOT NULL,
            response_due_at timestamptz NOT NULL,
            finding_due_at timestamptz NOT NULL,
            ruling_due_at timestamptz NOT NULL,
            response text,
            responded_at timestamptz,
            finding text,
            finding_at timestamptz,
            buyer_minor bigint,
            vendor_minor bigint,
            rationale text,
            resolved_at timestamptz,
            revision bigint DEFAULT 1 NOT NULL,
            created_at timestamptz DEFAULT now() NOT NULL,
            updated_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_disputes PRIMARY KEY (id),
            CONSTRAINT uq_disputes_number UNIQUE (number),
            CONSTRAINT ck_disputes_opened_by CHECK (opened_by IN ('buyer', 'vendor', 'system')),
            CONSTRAINT ck_disputes_order_status CHECK (order_status IN ('paid_escrow', 'processing', 'shipped')),
            CONSTRAINT ck_disputes_reason CHECK (reason IN (
                'not_received', 'not_as_described', 'damaged', 'wrong_item', 'buyer_unreachable', 'other')),
            CONSTRAINT ck_disputes_desired_outcome CHECK (
                desired_outcome IN ('refund', 'partial_refund', 'release')),
            CONSTRAINT ck_disputes_claimed_minor CHECK (claimed_minor > 0),
            CONSTRAINT ck_disputes_status CHECK (status IN (
                'open', 'awaiting_response', 'under_review', 'resolved_buyer', 'resolved_vendor', 'resolved_split',
                'withdrawn')),
            CONSTRAINT ck_disputes_resolved CHECK (
                (resolved_at IS NOT NULL)
                = (status IN ('resolved_buyer', 'resolved_vendor', 'resolved_split', 'withdrawn'))),
            CONSTRAINT ck_disputes_amounts CHECK (
                (status IN ('resolved_buyer', 'resolved_vendor', 'resolved_split'))
                = (buyer_minor IS NOT NULL AND vendor_minor IS NOT NULL AND rationale IS NOT NULL)
                AND coalesce(buyer_minor, 0) >= 0 AND coalesce(vendor_minor, 0) >= 0
                AND (status <> 'resolved_buyer' OR vendor_minor = 0)
                AND (status <> 'resolved_vendor' OR buyer_minor = 0)),
            CONSTRAINT fk_disputes_order_id FOREIGN KEY (order_id) REFERENCES orders (id),
            CONSTRAINT fk_disputes_buyer_id FOREIGN KEY (buyer_id) REFERENCES profiles (id),
            CONSTRAINT fk_disputes_vendor_user_id FOREIGN KEY (vendor_user_id) REFERENCES profiles (id)
        );
        CREATE UNIQUE INDEX uq_disputes_open_order ON disputes (order_id) WHERE resolved_at IS NULL;
        CREATE INDEX ix_disputes_order ON disputes (order_id);
        CREATE INDEX ix_disputes_buyer ON disputes (buyer_id, id DESC);
        CREATE INDEX ix_disputes_vendor ON disputes (vendor_user_id, id DESC);
        CREATE INDEX ix_disputes_due ON disputes (ruling_due_at, id) WHERE resolved_at IS NULL;
        CREATE INDEX ix_disputes_status ON disputes (status, id DESC);
        """
    )
    op.execute(
        """
        CREATE TABLE dispute_events (
            id bigint GENERATED ALWAYS AS IDENTITY,
            dispute_id uuid NOT NULL,
            event text NOT NULL,
            actor text NOT NULL,
            actor_id uuid,
            note text,
            at timestamptz NOT NULL,
            CONSTRAINT pk_dispute_events PRIMARY KEY (id),
            CONSTRAINT fk_dispute_events_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id)
        );
        CREATE INDEX ix_dispute_events_dispute ON dispute_events (dispute_id, id);
        CREATE TABLE dispute_ruling_proposals (
            dispute_id uuid NOT NULL,
            officer_id uuid NOT NULL,
            content jsonb NOT NULL,
            proposed_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            CONSTRAINT pk_dispute_ruling_proposals PRIMARY KEY (dispute_id),
            CONSTRAINT fk_dispute_ruling_proposals_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id),
            CONSTRAINT fk_dispute_ruling_proposals_officer_id FOREIGN KEY (officer_id) REFERENCES profiles (id)
        );
        COMMENT ON COLUMN disputes.order_status IS 'Status of the order before the dispute, for a withdrawal';
        COMMENT ON COLUMN disputes.buyer_minor IS 'Refund of the ruling in kobo';
        COMMENT ON COLUMN disputes.vendor_minor IS 'Released amount of the ruling in kobo, with the platform''s share';
        """
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE dispute_ruling_proposals, dispute_events, disputes")
    op.execute("DROP SEQUENCE dispute_number")
