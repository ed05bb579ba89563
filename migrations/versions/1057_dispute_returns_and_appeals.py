"""Returns and appeals of disputes, payout holds of a vendor's share, and the account of the platform's losses."""

from alembic import op

revision = "1057"
down_revision = "1056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables and the ledger account."""
    op.execute(
        """
        INSERT INTO ledger_accounts (id, kind, normal_side)
        VALUES ('3772ce47-3bbb-5b24-953b-967500b519af', 'dispute_expenses', 'debit');

        ALTER TABLE disputes ADD COLUMN officer_ids uuid[] DEFAULT '{}' NOT NULL;
        COMMENT ON COLUMN disputes.officer_ids IS 'Officers of the ruling, who do not decide the appeal';

        CREATE TABLE dispute_returns (
            dispute_id uuid NOT NULL,
            ruling jsonb NOT NULL,
            officer_ids uuid[] NOT NULL,
            status text NOT NULL,
            send_due_at timestamptz NOT NULL,
            tracking_note text,
            sent_at timestamptz,
            received_at timestamptz,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_dispute_returns PRIMARY KEY (dispute_id),
            CONSTRAINT ck_dispute_returns_status CHECK (status IN ('requested', 'sent', 'received', 'cancelled')),
            CONSTRAINT ck_dispute_returns_times CHECK (
                (status = 'received') = (received_at IS NOT NULL) AND (status <> 'sent' OR sent_at IS NOT NULL)),
            CONSTRAINT fk_dispute_returns_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id)
        );
        COMMENT ON COLUMN dispute_returns.ruling IS 'Ruling that is executed at the receipt';

        CREATE TABLE dispute_appeals (
            dispute_id uuid NOT NULL,
            appealed_by text NOT NULL,
            reason text NOT NULL,
            status text NOT NULL,
            decision_due_at timestamptz NOT NULL,
            amount_minor bigint,
            rationale text,
            decided_at timestamptz,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_dispute_appeals PRIMARY KEY (dispute_id),
            CONSTRAINT ck_dispute_appeals_appealed_by CHECK (appealed_by IN ('buyer', 'vendor')),
            CONSTRAINT ck_dispute_appeals_status CHECK (status IN ('pending', 'granted', 'rejected')),
            CONSTRAINT ck_dispute_appeals_decided CHECK (
                (status = 'pending') = (decided_at IS NULL) AND (status = 'pending') = (rationale IS NULL)),
            CONSTRAINT ck_dispute_appeals_amount CHECK (
                (status = 'granted') = (amount_minor IS NOT NULL) AND amount_minor > 0),
            CONSTRAINT fk_dispute_appeals_dispute_id FOREIGN KEY (dispute_id) REFERENCES disputes (id)
        );
        CREATE INDEX ix_dispute_appeals_due ON dispute_appeals (decision_due_at) WHERE status = 'pending';
        COMMENT ON COLUMN dispute_appeals.amount_minor IS
            'Kobo that the appealing side receives in addition to the ruling';

        CREATE TABLE payout_share_holds (
            order_id uuid NOT NULL,
            vendor_id uuid NOT NULL,
            amount_minor bigint NOT NULL,
            until timestamptz,
            created_at timestamptz DEFAULT now() NOT NULL,
            CONSTRAINT pk_payout_share_holds PRIMARY KEY (order_id),
            CONSTRAINT ck_payout_share_holds_amount CHECK (amount_minor > 0),
            CONSTRAINT fk_payout_share_holds_order_id FOREIGN KEY (order_id) REFERENCES orders (id),
            CONSTRAINT fk_payout_share_holds_vendor_id FOREIGN KEY (vendor_id) REFERENCES vendor_profiles (id)
        );
        CREATE INDEX ix_payout_share_holds_vendor ON payout_share_holds (vendor_id);
        COMMENT ON COLUMN payout_share_holds.until IS 'End of the hold; null while an appeal is pending';
        """
    )


def downgrade() -> None:
    """Drop the tables and the ledger account."""
    op.execute(
        """
        DROP TABLE payout_share_holds;
        DROP TABLE dispute_appeals;
        DROP TABLE dispute_returns;
        ALTER TABLE disputes DROP COLUMN officer_ids;
        DELETE FROM ledger_accounts WHERE kind = 'dispute_expenses';
        """
    )
