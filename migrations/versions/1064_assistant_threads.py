"""Threads of the assistant, people who opted out, evaluations, and the cost of usage."""

from alembic import op

revision = "1064"
down_revision = "1063"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, add the column, and extend the constraints of usage without validating them."""
    op.execute(
        """
        CREATE TABLE assistant_threads (
            id uuid DEFAULT uuidv7() NOT NULL,
            user_id uuid NOT NULL,
            thread_title text,
            message_count bigint DEFAULT 0 NOT NULL,
            thread_summary text,
            summarized_count bigint DEFAULT 0 NOT NULL,
            last_message_at timestamptz NOT NULL,
            flagged_at timestamptz,
            flag_reason text,
            flag_details text,
            reviewed_at timestamptz,
            reviewed_by_id uuid,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_assistant_threads PRIMARY KEY (id),
            CONSTRAINT ck_assistant_threads_counts CHECK (summarized_count BETWEEN 0 AND message_count),
            CONSTRAINT ck_assistant_threads_summary CHECK ((thread_summary IS NULL) = (summarized_count = 0)),
            CONSTRAINT ck_assistant_threads_flag_reason CHECK (
                flag_reason IN ('wrong', 'harmful', 'privacy', 'other')),
            CONSTRAINT ck_assistant_threads_flag CHECK ((flagged_at IS NULL) = (flag_reason IS NULL)),
            CONSTRAINT ck_assistant_threads_review CHECK ((reviewed_at IS NULL) = (reviewed_by_id IS NULL)),
            CONSTRAINT fk_assistant_threads_user_id FOREIGN KEY (user_id) REFERENCES profiles (id),
            CONSTRAINT fk_assistant_threads_reviewed_by_id FOREIGN KEY (reviewed_by_id) REFERENCES profiles (id)
        );
        COMMENT ON COLUMN assistant_threads.thread_summary IS 'Summary of the first messages';
        CREATE INDEX ix_assistant_threads_user ON assistant_threads (user_id, last_message_at DESC, id DESC);
        CREATE INDEX ix_assistant_threads_flagged ON assistant_threads (flagged_at DESC, id DESC)
            WHERE flagged_at IS NOT NULL;

        CREATE TABLE assistant_messages (
            thread_id uuid NOT NULL,
            number bigint NOT NULL,
            role text NOT NULL,
            body text NOT NULL,
            picture_count bigint DEFAULT 0 NOT NULL,
            is_complete boolean DEFAULT true NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_assistant_messages PRIMARY KEY (thread_id, number),
            CONSTRAINT ck_assistant_messages_role CHECK (role IN ('user', 'assistant')),
            CONSTRAINT ck_assistant_messages_numbers CHECK (number > 0 AND picture_count BETWEEN 0 AND 4),
            CONSTRAINT fk_assistant_messages_thread_id FOREIGN KEY (thread_id) REFERENCES assistant_threads (id)
        );
        COMMENT ON COLUMN assistant_messages.is_complete IS 'False for an answer that was interrupted';

        CREATE TABLE assistant_opt_outs (
            user_id uuid NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_assistant_opt_outs PRIMARY KEY (user_id),
            CONSTRAINT fk_assistant_opt_outs_user_id FOREIGN KEY (user_id) REFERENCES profiles (id)
        );

        CREATE TABLE assistant_evaluations (
            id uuid DEFAULT uuidv7() NOT NULL,
            model text NOT NULL,
            prompt_version text NOT NULL,
            question_count bigint NOT NULL,
            right_count bigint NOT NULL,
            scores jsonb NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_assistant_evaluations PRIMARY KEY (id),
            CONSTRAINT ck_assistant_evaluations_counts CHECK (
                right_count BETWEEN 0 AND question_count AND question_count > 0)
        );
        COMMENT ON COLUMN assistant_evaluations.scores IS 'Right answers and questions by intent';
        CREATE INDEX ix_assistant_evaluations_created ON assistant_evaluations (created_at);

        ALTER TABLE assistant_usage ADD COLUMN cost_micros bigint DEFAULT 0 NOT NULL;
        COMMENT ON COLUMN assistant_usage.cost_micros IS
            'Millionths of a US dollar, by the prices at the time of the call';
        ALTER TABLE assistant_usage DROP CONSTRAINT ck_assistant_usage_purpose,
            ADD CONSTRAINT ck_assistant_usage_purpose CHECK (
                purpose IN ('session_title', 'support_reply', 'conversation', 'thread_summary')) NOT VALID,
            DROP CONSTRAINT ck_assistant_usage_not_negative,
            ADD CONSTRAINT ck_assistant_usage_not_negative CHECK (
                least(calls, prompt_tokens, completion_tokens, cost_micros) >= 0) NOT VALID;
        """
    )


def downgrade() -> None:
    """Drop the tables, the column, and the rows of usage that the earlier constraint refuses."""
    op.execute(
        """
        DELETE FROM assistant_usage WHERE purpose IN ('conversation', 'thread_summary');
        ALTER TABLE assistant_usage DROP CONSTRAINT ck_assistant_usage_purpose,
            ADD CONSTRAINT ck_assistant_usage_purpose CHECK (purpose IN ('session_title', 'support_reply')),
            DROP CONSTRAINT ck_assistant_usage_not_negative,
            DROP COLUMN cost_micros,
            ADD CONSTRAINT ck_assistant_usage_not_negative CHECK (
                least(calls, prompt_tokens, completion_tokens) >= 0);
        DROP TABLE assistant_evaluations;
        DROP TABLE assistant_opt_outs;
        DROP TABLE assistant_messages;
        DROP TABLE assistant_threads;
        """
    )
