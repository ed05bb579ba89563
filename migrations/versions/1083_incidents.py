"""Incidents, with the notes that staff publish."""

from alembic import op

revision = "1083"
down_revision = "1082"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute(
        """
        CREATE TABLE incidents (
            id uuid DEFAULT uuidv7() CONSTRAINT pk_incidents PRIMARY KEY,
            title text NOT NULL,
            impact text NOT NULL,
            components text[] NOT NULL,
            started_at timestamptz NOT NULL,
            resolved_at timestamptz,
            CONSTRAINT ck_incidents_impact CHECK (impact IN ('minor', 'major', 'critical')),
            CONSTRAINT ck_incidents_components
                CHECK (components <@ ARRAY['database', 'cache', 'payments', 'payouts']),
            CONSTRAINT ck_incidents_resolved CHECK (resolved_at >= started_at)
        );
        CREATE INDEX ix_incidents_started_at ON incidents (started_at, id);
        CREATE TABLE incident_notes (
            id uuid DEFAULT uuidv7() CONSTRAINT pk_incident_notes PRIMARY KEY,
            incident_id uuid NOT NULL CONSTRAINT fk_incident_notes_incident_id REFERENCES incidents (id),
            status text NOT NULL,
            message text NOT NULL,
            author_id uuid NOT NULL CONSTRAINT fk_incident_notes_author_id REFERENCES profiles (id),
            created_at timestamptz NOT NULL,
            CONSTRAINT ck_incident_notes_status
                CHECK (status IN ('investigating', 'identified', 'monitoring', 'resolved'))
        );
        CREATE INDEX ix_incident_notes_incident_id ON incident_notes (incident_id);
        CREATE INDEX ix_incident_notes_author_id ON incident_notes (author_id);
        """
    )


def downgrade() -> None:
    """Drop the tables."""
    op.execute("DROP TABLE incident_notes, incidents")
