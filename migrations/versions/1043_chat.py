"""Chat: conversations, messages, pictures, blocked people, blocked messages and phone exchanges."""

from alembic import op

revision = "1043"
down_revision = "1042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.execute("""
    CREATE TABLE conversations (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_conversations PRIMARY KEY,
        buyer_id uuid NOT NULL CONSTRAINT fk_conversations_buyer_id REFERENCES profiles,
        seller_id uuid NOT NULL CONSTRAINT fk_conversations_seller_id REFERENCES profiles,
        vendor_id uuid NOT NULL CONSTRAINT fk_conversations_vendor_id REFERENCES vendor_profiles,
        message_count bigint NOT NULL,
        last_message_id uuid NOT NULL,
        buyer_read_number bigint NOT NULL DEFAULT 0,
        seller_read_number bigint NOT NULL DEFAULT 0,
        buyer_unread bigint NOT NULL DEFAULT 0,
        seller_unread bigint NOT NULL DEFAULT 0,
        buyer_muted boolean NOT NULL DEFAULT false,
        seller_muted boolean NOT NULL DEFAULT false,
        created_at timestamptz NOT NULL,
        CONSTRAINT uq_conversations_buyer_id_vendor_id UNIQUE (buyer_id, vendor_id),
        CONSTRAINT ck_conversations_two_people CHECK (buyer_id <> seller_id),
        CONSTRAINT ck_conversations_numbers CHECK (
            message_count > 0 AND buyer_read_number BETWEEN 0 AND message_count
            AND seller_read_number BETWEEN 0 AND message_count
            AND buyer_unread BETWEEN 0 AND message_count - buyer_read_number
            AND seller_unread BETWEEN 0 AND message_count - seller_read_number)
    );
    CREATE INDEX ix_conversations_buyer ON conversations (buyer_id, last_message_id DESC);
    CREATE INDEX ix_conversations_seller ON conversations (seller_id, last_message_id DESC);
    CREATE INDEX ix_conversations_buyer_unread ON conversations (buyer_id, last_message_id DESC)
        WHERE buyer_unread > 0;
    CREATE INDEX ix_conversations_seller_unread ON conversations (seller_id, last_message_id DESC)
        WHERE seller_unread > 0;
    CREATE INDEX ix_conversations_opened ON conversations (buyer_id, created_at);
    CREATE INDEX ix_conversations_vendor ON conversations (vendor_id);
    COMMENT ON COLUMN conversations.last_message_id IS 'Sort key of lists: ids are ordered by time';
    COMMENT ON COLUMN conversations.buyer_read_number IS 'Number of the last message that the buyer has read';
    COMMENT ON COLUMN conversations.buyer_unread IS 'Messages of the store after buyer_read_number';
    CREATE TABLE messages (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_messages PRIMARY KEY,
        conversation_id uuid NOT NULL CONSTRAINT fk_messages_conversation_id REFERENCES conversations,
        number bigint NOT NULL,
        sender text NOT NULL,
        body text NOT NULL,
        product_id uuid CONSTRAINT fk_messages_product_id REFERENCES products,
        order_id uuid CONSTRAINT fk_messages_order_id REFERENCES orders,
        removed_at timestamptz,
        created_at timestamptz NOT NULL,
        CONSTRAINT uq_messages_conversation_id_number UNIQUE (conversation_id, number),
        CONSTRAINT ck_messages_sender CHECK (sender IN ('buyer', 'vendor')),
        CONSTRAINT ck_messages_number CHECK (number > 0),
        CONSTRAINT ck_messages_body CHECK (length(body) BETWEEN 1 AND 2000)
    );
    COMMENT ON COLUMN messages.removed_at IS 'Time at which staff removed the message';
    CREATE TABLE message_images (
        message_id uuid NOT NULL CONSTRAINT fk_message_images_message_id REFERENCES messages,
        position bigint NOT NULL,
        image_id uuid NOT NULL CONSTRAINT fk_message_images_image_id REFERENCES images,
        CONSTRAINT pk_message_images PRIMARY KEY (message_id, position),
        CONSTRAINT uq_message_images_image_id UNIQUE (image_id),
        CONSTRAINT ck_message_images_position CHECK (position BETWEEN 0 AND 3)
    );
    CREATE TABLE chat_blocks (
        blocker_id uuid NOT NULL CONSTRAINT fk_chat_blocks_blocker_id REFERENCES profiles,
        blocked_id uuid NOT NULL CONSTRAINT fk_chat_blocks_blocked_id REFERENCES profiles,
        created_at timestamptz NOT NULL,
        CONSTRAINT pk_chat_blocks PRIMARY KEY (blocker_id, blocked_id),
        CONSTRAINT ck_chat_blocks_two_people CHECK (blocker_id <> blocked_id)
    );
    CREATE INDEX ix_chat_blocks_blocked ON chat_blocks (blocked_id);
    CREATE TABLE blocked_messages (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_blocked_messages PRIMARY KEY,
        sender_id uuid NOT NULL CONSTRAINT fk_blocked_messages_sender_id REFERENCES profiles,
        recipient_id uuid NOT NULL CONSTRAINT fk_blocked_messages_recipient_id REFERENCES profiles,
        vendor_id uuid NOT NULL CONSTRAINT fk_blocked_messages_vendor_id REFERENCES vendor_profiles,
        body text NOT NULL,
        earlier_messages text[] NOT NULL,
        kinds text[] NOT NULL,
        verdict text,
        reviewed_by uuid CONSTRAINT fk_blocked_messages_reviewed_by REFERENCES profiles,
        reviewed_at timestamptz,
        created_at timestamptz NOT NULL,
        CONSTRAINT ck_blocked_messages_two_people CHECK (sender_id <> recipient_id),
        CONSTRAINT ck_blocked_messages_kinds CHECK (cardinality(kinds) > 0),
        CONSTRAINT ck_blocked_messages_verdict CHECK (verdict IN ('correct', 'mistaken')),
        CONSTRAINT ck_blocked_messages_reviewed CHECK (
            (verdict IS NULL) = (reviewed_at IS NULL) AND (reviewed_at IS NULL) = (reviewed_by IS NULL)),
        CONSTRAINT ck_blocked_messages_not_own CHECK (reviewed_by <> sender_id AND reviewed_by <> recipient_id)
    );
    CREATE INDEX ix_blocked_messages_open ON blocked_messages (id) WHERE reviewed_at IS NULL;
    CREATE INDEX ix_blocked_messages_sender ON blocked_messages (sender_id, created_at);
    CREATE INDEX ix_blocked_messages_recipient ON blocked_messages (recipient_id);
    COMMENT ON COLUMN blocked_messages.earlier_messages IS
        'Messages of the last two minutes that contain the details together with the body';
    COMMENT ON COLUMN blocked_messages.kinds IS 'Kinds of details that the guard found';
    CREATE TABLE phone_exchanges (
        conversation_id uuid NOT NULL CONSTRAINT pk_phone_exchanges PRIMARY KEY
            CONSTRAINT fk_phone_exchanges_conversation_id REFERENCES conversations,
        buyer_agreed_at timestamptz,
        seller_agreed_at timestamptz,
        CONSTRAINT ck_phone_exchanges_agreed CHECK (
            buyer_agreed_at IS NOT NULL OR seller_agreed_at IS NOT NULL)
    );
    """)


def downgrade() -> None:
    """Drop the tables."""
    op.execute(
        "DROP TABLE phone_exchanges, blocked_messages, chat_blocks, message_images, messages, conversations"
    )
