"""Validated constraints of the assistant's usage."""

from alembic import op

from migrations.operations import validate_constraint

revision = "1065"
down_revision = "1064"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Validate the constraints."""
    validate_constraint("assistant_usage", "ck_assistant_usage_purpose")
    validate_constraint("assistant_usage", "ck_assistant_usage_not_negative")


def downgrade() -> None:
    """Return the constraints to their state before the validation."""
    op.execute(
        """
        ALTER TABLE assistant_usage DROP CONSTRAINT ck_assistant_usage_purpose,
            ADD CONSTRAINT ck_assistant_usage_purpose CHECK (
                purpose IN ('session_title', 'support_reply', 'conversation', 'thread_summary')) NOT VALID,
            DROP CONSTRAINT ck_assistant_usage_not_negative,
            ADD CONSTRAINT ck_assistant_usage_not_negative CHECK (
                least(calls, prompt_tokens, completion_tokens, cost_micros) >= 0) NOT VALID
        """
    )
