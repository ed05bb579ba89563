"""Usage of the language model by person and day."""

from alembic import op

revision = "1063"
down_revision = "1062"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE assistant_usage (
            user_id uuid NOT NULL,
            day date NOT NULL,
            purpose text NOT NULL,
            calls bigint DEFAULT 0 NOT NULL,
            prompt_tokens bigint DEFAULT 0 NOT NULL,
            completion_tokens bigint DEFAULT 0 NOT NULL,
            CONSTRAINT pk_assistant_usage PRIMARY KEY (user_id, day, purpose),
            CONSTRAINT ck_assistant_usage_purpose CHECK (purpose IN ('session_title', 'support_reply')),
            CONSTRAINT ck_assistant_usage_not_negative CHECK (
                least(calls, prompt_tokens, completion_tokens) >= 0),
            CONSTRAINT fk_assistant_usage_user_id FOREIGN KEY (user_id) REFERENCES profiles (id)
        );
        CREATE INDEX ix_assistant_usage_day ON assistant_usage (day);
        """
    )


def downgrade() -> None:
    """Drop the table."""
    op.execute("DROP TABLE assistant_usage")
