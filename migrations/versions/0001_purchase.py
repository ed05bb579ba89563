"""The tables of the purchase: people, catalog, cart, orders, payments, ledger, webhooks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the schema to this revision."""
    op.execute(sa.schema.CreateSequence(sa.Sequence("order_number", start=100001)))
    op.create_table(
        "admin_roles",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("permissions", sa.ARRAY(sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_admin_roles")),
    )
    op.create_table(
        "audit_logs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("actor_id", sa.Uuid(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target_type", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("ip_address", sa.Text(), nullable=True),
        sa.Column("user_agent", sa.Text(), nullable=True),
        sa.Column("before", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("after", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_logs")),
    )
    op.create_table(
        "campuses",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campuses")),
        sa.UniqueConstraint("slug", name=op.f("uq_campuses_slug")),
    )
    op.create_table(
        "categories",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("parent_id", sa.Uuid(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lineage", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("commission_bps", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["parent_id"], ["categories.id"], name=op.f("fk_categories_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_categories")),
        sa.UniqueConstraint("slug", name=op.f("uq_categories_slug")),
    )
    op.create_index("ix_categories_lineage", "categories", ["lineage"], unique=False, postgresql_using="gin")
    op.create_index(op.f("ix_categories_parent_id"), "categories", ["parent_id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("claimed_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("completed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("response_status", sa.BigInteger(), nullable=True),
        sa.Column("response_type", sa.Text(), nullable=True),
        sa.Column("response_body", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
        sa.UniqueConstraint(
            "caller", "method", "path", "key", name=op.f("uq_idempotency_keys_caller_method_path_key")
        ),
    )
    op.create_index(op.f("ix_idempotency_keys_expires_at"), "idempotency_keys", ["expires_at"], unique=False)
    op.create_table(
        "ledger_accounts",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Derived from the account's name"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=True),
        sa.Column("normal_side", sa.Text(), nullable=False),
        sa.Column("balance_minor", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("normal_side IN ('debit', 'credit')", name=op.f("ck_ledger_accounts_normal_side")),
        sa.CheckConstraint(
            "(owner_id IS NULL) = (balance_minor IS NULL)", name=op.f("ck_ledger_accounts_balance_of_owned")
        ),
        sa.CheckConstraint("balance_minor >= 0", name=op.f("ck_ledger_accounts_balance_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_accounts")),
        sa.UniqueConstraint(
            "kind",
            "owner_id",
            name=op.f("uq_ledger_accounts_kind_owner_id"),
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index(op.f("ix_ledger_accounts_owner_id"), "ledger_accounts", ["owner_id"], unique=False)
    op.create_table(
        "ledger_transactions",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "posted_in",
            sa.BigInteger(),
            server_default=sa.text("(pg_current_xact_id()::text)::bigint"),
            nullable=False,
            comment="The database transaction that posted it: no other may add entries",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_transactions")),
        sa.UniqueConstraint("kind", "source", name=op.f("uq_ledger_transactions_kind_source")),
    )
    op.create_table(
        "outbox_events",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("done_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "failed_at", sa.TIMESTAMP(timezone=True), nullable=True, comment="Given up after the last try"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox_events")),
    )
    op.create_index(
        "ix_outbox_events_due",
        "outbox_events",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("done_at IS NULL AND failed_at IS NULL"),
    )
    op.create_table(
        "platform_settings",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_platform_settings")),
    )
    op.create_table(
        "processed_webhook_events",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "processed_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "provider IN ('gateway', 'messaging')", name=op.f("ck_processed_webhook_events_provider")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processed_webhook_events")),
    )
    op.create_table(
        "webhook_inbox",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), server_default="received", nullable=False),
        sa.Column("event_type", sa.Text(), nullable=True),
        sa.Column("dedupe_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "received_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("finished_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("provider IN ('gateway', 'messaging')", name=op.f("ck_webhook_inbox_provider")),
        sa.CheckConstraint(
            "status IN ('received', 'retrying', 'processed', 'duplicate', 'ignored', 'dead')",
            name=op.f("ck_webhook_inbox_status"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_inbox")),
    )
    op.create_index(op.f("ix_webhook_inbox_dedupe_id"), "webhook_inbox", ["dedupe_id"], unique=False)
    op.create_index(
        "ix_webhook_inbox_due",
        "webhook_inbox",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("status IN ('received', 'retrying')"),
    )
    op.create_index(
        "ix_webhook_inbox_received",
        "webhook_inbox",
        [sa.literal_column("received_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_table(
        "campus_email_domains",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campus_id"], ["campuses.id"], name=op.f("fk_campus_email_domains_campus_id")
        ),
        sa.PrimaryKeyConstraint("domain", name=op.f("pk_campus_email_domains")),
    )
    op.create_index(
        op.f("ix_campus_email_domains_campus_id"), "campus_email_domains", ["campus_id"], unique=False
    )
    op.create_table(
        "dead_letter_webhooks",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("inbox_id", sa.Uuid(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=True),
        sa.Column("dedupe_id", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("died_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("replayed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["inbox_id"], ["webhook_inbox.id"], name=op.f("fk_dead_letter_webhooks_inbox_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dead_letter_webhooks")),
        sa.UniqueConstraint("inbox_id", name=op.f("uq_dead_letter_webhooks_inbox_id")),
    )
    op.create_index(
        "ix_dead_letter_webhooks_died",
        "dead_letter_webhooks",
        [sa.literal_column("died_at DESC")],
        unique=False,
    )
    op.create_table(
        "hostels",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_hostels_campus_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hostels")),
    )
    op.create_index(op.f("ix_hostels_campus_id"), "hostels", ["campus_id"], unique=False)
    op.create_table(
        "hubs",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("opening_hours", sa.Text(), nullable=False),
        sa.Column("latitude", sa.Numeric(precision=9, scale=6), nullable=True),
        sa.Column("longitude", sa.Numeric(precision=9, scale=6), nullable=True),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_hubs_campus_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hubs")),
    )
    op.create_index(op.f("ix_hubs_campus_id"), "hubs", ["campus_id"], unique=False)
    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("transaction_id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("balance_after_minor", sa.BigInteger(), nullable=True),
        sa.Column("order_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("direction IN ('debit', 'credit')", name=op.f("ck_ledger_entries_direction")),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_ledger_entries_amount_positive")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["ledger_accounts.id"], name=op.f("fk_ledger_entries_account_id")
        ),
        sa.ForeignKeyConstraint(
            ["transaction_id"], ["ledger_transactions.id"], name=op.f("fk_ledger_entries_transaction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_entries")),
    )
    op.create_index(
        "ix_ledger_entries_account",
        "ledger_entries",
        ["account_id", sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_ledger_entries_order",
        "ledger_entries",
        ["order_id", "account_id"],
        unique=False,
        postgresql_where=sa.text("order_id IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_ledger_entries_transaction_id"), "ledger_entries", ["transaction_id"], unique=False
    )
    op.create_table(
        "profiles",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("campus_id", sa.Uuid(), nullable=True),
        sa.Column("avatar_url", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), server_default="buyer", nullable=False),
        sa.Column("staff_role", sa.Text(), nullable=True),
        sa.Column("badges", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("account_status", sa.Text(), server_default="active", nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("appeal_status", sa.Text(), nullable=True),
        sa.Column(
            "referral_code",
            sa.Text(),
            server_default=sa.text("upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 10))"),
            nullable=False,
        ),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "(role = 'staff') = (staff_role IS NOT NULL)", name=op.f("ck_profiles_staff_role")
        ),
        sa.CheckConstraint(
            "account_status IN ('active', 'restricted', 'suspended')", name=op.f("ck_profiles_account_status")
        ),
        sa.CheckConstraint("role IN ('buyer', 'vendor', 'staff')", name=op.f("ck_profiles_role")),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_profiles_campus_id")),
        sa.ForeignKeyConstraint(["staff_role"], ["admin_roles.role"], name=op.f("fk_profiles_staff_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profiles")),
        sa.UniqueConstraint("referral_code", name=op.f("uq_profiles_referral_code")),
    )
    op.create_index(op.f("ix_profiles_campus_id"), "profiles", ["campus_id"], unique=False)
    op.create_index("ix_profiles_email", "profiles", [sa.literal_column("lower(email)")], unique=False)
    op.create_table(
        "addresses",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("hostel", sa.Text(), nullable=False),
        sa.Column("hall", sa.Text(), nullable=True),
        sa.Column("room_number", sa.Text(), nullable=True),
        sa.Column("latitude", sa.Numeric(precision=9, scale=6), nullable=True),
        sa.Column("longitude", sa.Numeric(precision=9, scale=6), nullable=True),
        sa.Column("instructions", sa.Text(), nullable=True),
        sa.Column("phone", sa.Text(), nullable=True),
        sa.Column("is_default", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_addresses_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_addresses")),
    )
    op.create_index("ix_addresses_user", "addresses", ["user_id", "created_at"], unique=False)
    op.create_index(
        "uq_addresses_default",
        "addresses",
        ["user_id"],
        unique=True,
        postgresql_where=sa.text("is_default AND deleted_at IS NULL"),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=True),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["profiles.id"], name=op.f("fk_images_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    op.create_index(op.f("ix_images_owner_id"), "images", ["owner_id"], unique=False)
    op.create_table(
        "payment_intents",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column(
            "reference",
            sa.Text(),
            server_default=sa.text("'checkout-' || replace(gen_random_uuid()::text, '-', '')"),
            nullable=False,
        ),
        sa.Column("buyer_id", sa.Uuid(), nullable=False),
        sa.Column("checkout_id", sa.Uuid(), nullable=True),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), server_default="NGN", nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("callback_url", sa.Text(), nullable=True),
        sa.Column("authorization_url", sa.Text(), nullable=True),
        sa.Column(
            "opening_until",
            sa.TIMESTAMP(timezone=True),
            nullable=True,
            comment="Somebody is asking the gateway for the page; others wait until then",
        ),
        sa.Column("access_code", sa.Text(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=True),
        sa.Column("gateway_charge_id", sa.Text(), nullable=True),
        sa.Column("settled_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "reference ~ '^checkout-[0-9a-f]{32}$'", name=op.f("ck_payment_intents_reference")
        ),
        sa.CheckConstraint(
            "status IN ('initialized', 'pending', 'succeeded', 'failed', 'quarantined', 'abandoned')",
            name=op.f("ck_payment_intents_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_payment_intents_amount_positive")),
        sa.ForeignKeyConstraint(["buyer_id"], ["profiles.id"], name=op.f("fk_payment_intents_buyer_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment_intents")),
        sa.UniqueConstraint("reference", name=op.f("uq_payment_intents_reference")),
    )
    op.create_index(op.f("ix_payment_intents_buyer_id"), "payment_intents", ["buyer_id"], unique=False)
    op.create_index(
        "ix_payment_intents_open",
        "payment_intents",
        ["id"],
        unique=False,
        postgresql_where=sa.text("status IN ('initialized', 'pending')"),
    )
    op.create_table(
        "vendor_profiles",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("verified", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("on_vacation", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("vacation_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("vacation_note", sa.Text(), nullable=True),
        sa.Column("bank_code", sa.Text(), nullable=True),
        sa.Column("bank_account_number", sa.Text(), nullable=True),
        sa.Column("bank_account_name", sa.Text(), nullable=True),
        sa.Column("bank_account_changed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("rating_sum", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rating_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed_orders", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "status IN ('active', 'suspended', 'closed')", name=op.f("ck_vendor_profiles_status")
        ),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_vendor_profiles_campus_id")),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_vendor_profiles_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vendor_profiles")),
        sa.UniqueConstraint("slug", name=op.f("uq_vendor_profiles_slug")),
        sa.UniqueConstraint("user_id", name=op.f("uq_vendor_profiles_user_id")),
    )
    op.create_index(op.f("ix_vendor_profiles_campus_id"), "vendor_profiles", ["campus_id"], unique=False)
    op.create_table(
        "orders",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column(
            "number",
            sa.Text(),
            server_default=sa.text("'CM-' || nextval('order_number')::text"),
            nullable=False,
        ),
        sa.Column("buyer_id", sa.Uuid(), nullable=False),
        sa.Column("vendor_id", sa.Uuid(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("checkout_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("subtotal_minor", sa.BigInteger(), nullable=False),
        sa.Column("delivery_fee_minor", sa.BigInteger(), nullable=False),
        sa.Column("service_fee_minor", sa.BigInteger(), nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), nullable=False),
        sa.Column("total_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), server_default="NGN", nullable=False),
        sa.Column("delivery_method", sa.Text(), nullable=False),
        sa.Column("shipping_address", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("tracking_note", sa.Text(), nullable=True),
        sa.Column("payment_reference", sa.Text(), nullable=True),
        sa.Column("payment_status", sa.Text(), nullable=True),
        sa.Column("payment_channel", sa.Text(), nullable=True),
        sa.Column("pin_counter", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pin_failures", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pin_locked_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("paid_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("accepted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("shipped_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("delivered_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("cancelled_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("expired_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("cancelled_by", sa.Text(), nullable=True),
        sa.Column("cancellation_reason", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "delivery_method IN ('delivery', 'pickup')", name=op.f("ck_orders_delivery_method")
        ),
        sa.CheckConstraint(
            "status IN ('pending_payment', 'paid_escrow', 'processing', 'shipped', 'delivered', 'disputed', 'cancelled', 'expired', 'refunded')",
            name=op.f("ck_orders_status"),
        ),
        sa.CheckConstraint(
            "least(subtotal_minor, delivery_fee_minor, service_fee_minor, discount_minor) >= 0",
            name=op.f("ck_orders_amounts_not_negative"),
        ),
        sa.CheckConstraint(
            "total_minor = subtotal_minor + delivery_fee_minor + service_fee_minor - discount_minor AND total_minor > 0",
            name=op.f("ck_orders_total"),
        ),
        sa.ForeignKeyConstraint(["buyer_id"], ["profiles.id"], name=op.f("fk_orders_buyer_id")),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_orders_campus_id")),
        sa.ForeignKeyConstraint(["vendor_id"], ["vendor_profiles.id"], name=op.f("fk_orders_vendor_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
        sa.UniqueConstraint("number", name=op.f("uq_orders_number")),
    )
    op.create_index("ix_orders_buyer", "orders", ["buyer_id", sa.literal_column("id DESC")], unique=False)
    op.create_index(
        "ix_orders_checkout",
        "orders",
        ["checkout_id"],
        unique=False,
        postgresql_where=sa.text("checkout_id IS NOT NULL"),
    )
    op.create_index(
        "ix_orders_unpaid",
        "orders",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending_payment'"),
    )
    op.create_index(
        "ix_orders_vendor",
        "orders",
        ["vendor_id", sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("paid_at IS NOT NULL"),
    )
    op.create_table(
        "products",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("vendor_id", sa.Uuid(), nullable=False),
        sa.Column("campus_id", sa.Uuid(), nullable=False),
        sa.Column("category_id", sa.Uuid(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("price_minor", sa.BigInteger(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "available", sa.BigInteger(), sa.Computed("quantity - reserved", persisted=True), nullable=False
        ),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("cover_key", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("popularity", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rating_sum", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rating_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "rating_bayes",
            sa.BigInteger(),
            sa.Computed("(rating_sum * 1000 + 15000) / (rating_count + 5)", persisted=True),
            nullable=False,
            comment="Thousandths of a star, drawn to 3 by five imagined ratings, so that one 5 is not the best",
        ),
        sa.Column(
            "screened_at",
            sa.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When the content as it stands was found fit; none since a change that must be screened",
        ),
        sa.Column("published_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "condition IN ('new', 'like_new', 'good', 'fair')", name=op.f("ck_products_condition")
        ),
        sa.CheckConstraint(
            "status IN ('draft', 'in_review', 'published', 'rejected', 'paused', 'removed', 'deleted')",
            name=op.f("ck_products_status"),
        ),
        sa.CheckConstraint("price_minor BETWEEN 100 AND 10000000000", name=op.f("ck_products_price")),
        sa.CheckConstraint("quantity BETWEEN 0 AND 100000", name=op.f("ck_products_quantity")),
        sa.CheckConstraint("reserved BETWEEN 0 AND quantity", name=op.f("ck_products_reserved")),
        sa.ForeignKeyConstraint(["campus_id"], ["campuses.id"], name=op.f("fk_products_campus_id")),
        sa.ForeignKeyConstraint(["category_id"], ["categories.id"], name=op.f("fk_products_category_id")),
        sa.ForeignKeyConstraint(["vendor_id"], ["vendor_profiles.id"], name=op.f("fk_products_vendor_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_products")),
    )
    op.create_index(
        "ix_products_campus_newest",
        "products",
        ["campus_id", sa.literal_column("published_at DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_category_newest",
        "products",
        ["category_id", sa.literal_column("published_at DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_category_price",
        "products",
        ["category_id", "campus_id", "price_minor", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_newest",
        "products",
        [sa.literal_column("published_at DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_popular",
        "products",
        [sa.literal_column("popularity DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_price",
        "products",
        ["price_minor", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_rating",
        "products",
        [sa.literal_column("rating_bayes DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("status = 'published'"),
    )
    op.create_index(
        "ix_products_vendor", "products", ["vendor_id", sa.literal_column("created_at DESC")], unique=False
    )
    op.create_table(
        "quarantined_charges",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuidv7()"), nullable=False),
        sa.Column("gateway_charge_id", sa.Text(), nullable=False),
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("fees_minor", sa.BigInteger(), nullable=False),
        sa.Column("ledger_transaction_id", sa.Uuid(), nullable=True),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), server_default="open", nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("resolved_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "reason IN ('amount_below_total', 'currency', 'order_not_payable', 'already_paid')",
            name=op.f("ck_quarantined_charges_reason"),
        ),
        sa.CheckConstraint("status IN ('open', 'resolved')", name=op.f("ck_quarantined_charges_status")),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payment_intents.id"], name=op.f("fk_quarantined_charges_intent_id")
        ),
        sa.ForeignKeyConstraint(
            ["ledger_transaction_id"],
            ["ledger_transactions.id"],
            name=op.f("fk_quarantined_charges_ledger_transaction_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantined_charges")),
        sa.UniqueConstraint("gateway_charge_id", name=op.f("uq_quarantined_charges_gateway_charge_id")),
    )
    op.create_index(
        op.f("ix_quarantined_charges_intent_id"), "quarantined_charges", ["intent_id"], unique=False
    )
    op.create_table(
        "cart_items",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column(
            "price_minor_seen",
            sa.BigInteger(),
            nullable=False,
            comment="The price when the cart was last synchronised",
        ),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("quantity BETWEEN 1 AND 1000", name=op.f("ck_cart_items_quantity")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_cart_items_product_id")),
        sa.ForeignKeyConstraint(["user_id"], ["profiles.id"], name=op.f("fk_cart_items_user_id")),
        sa.PrimaryKeyConstraint("user_id", "product_id", name=op.f("pk_cart_items")),
    )
    op.create_table(
        "escrows",
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("released_minor", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'held', 'frozen', 'released', 'refunded', 'partially_refunded')",
            name=op.f("ck_escrows_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_escrows_amount_positive")),
        sa.CheckConstraint(
            "released_minor >= 0 AND refunded_minor >= 0 AND released_minor + refunded_minor <= amount_minor",
            name=op.f("ck_escrows_within_amount"),
        ),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_escrows_order_id")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_escrows")),
    )
    op.create_table(
        "order_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("from_status", sa.Text(), nullable=True),
        sa.Column("to_status", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_id", sa.Uuid(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_order_events_order_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_order_events")),
    )
    op.create_index("ix_order_events_order", "order_events", ["order_id", "id"], unique=False)
    op.create_table(
        "order_items",
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("image_key", sa.Text(), nullable=True),
        sa.Column("unit_price_minor", sa.BigInteger(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("line_total_minor", sa.BigInteger(), nullable=False),
        sa.Column("commission_bps", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("commission_bps BETWEEN 0 AND 10000", name=op.f("ck_order_items_commission_bps")),
        sa.CheckConstraint(
            "line_total_minor = unit_price_minor * quantity AND unit_price_minor > 0",
            name=op.f("ck_order_items_line_total"),
        ),
        sa.CheckConstraint("quantity BETWEEN 1 AND 1000", name=op.f("ck_order_items_quantity")),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_order_items_order_id")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_order_items_product_id")),
        sa.PrimaryKeyConstraint("order_id", "position", name=op.f("pk_order_items")),
    )
    op.create_index(op.f("ix_order_items_product_id"), "order_items", ["product_id"], unique=False)
    op.create_table(
        "payment_allocations",
        sa.Column("intent_id", sa.Uuid(), nullable=False),
        sa.Column("order_id", sa.Uuid(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), nullable=False),
        sa.Column("live", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_payment_allocations_amount_positive")),
        sa.ForeignKeyConstraint(
            ["intent_id"], ["payment_intents.id"], name=op.f("fk_payment_allocations_intent_id")
        ),
        sa.ForeignKeyConstraint(["order_id"], ["orders.id"], name=op.f("fk_payment_allocations_order_id")),
        sa.PrimaryKeyConstraint("intent_id", "order_id", name=op.f("pk_payment_allocations")),
    )
    op.create_index(
        op.f("ix_payment_allocations_order_id"), "payment_allocations", ["order_id"], unique=False
    )
    op.create_index(
        "uq_payment_allocations_live",
        "payment_allocations",
        ["order_id"],
        unique=True,
        postgresql_where=sa.text("live"),
    )
    op.create_table(
        "product_images",
        sa.Column("product_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("image_id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("position BETWEEN 0 AND 7", name=op.f("ck_product_images_position")),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], name=op.f("fk_product_images_image_id")),
        sa.ForeignKeyConstraint(["product_id"], ["products.id"], name=op.f("fk_product_images_product_id")),
        sa.PrimaryKeyConstraint("product_id", "position", name=op.f("pk_product_images")),
    )
    op.create_index(op.f("ix_product_images_image_id"), "product_images", ["image_id"], unique=False)


def downgrade() -> None:
    """Take the schema back to the revision before."""
    op.drop_index(op.f("ix_product_images_image_id"), table_name="product_images")
    op.drop_table("product_images")
    op.drop_index(
        "uq_payment_allocations_live", table_name="payment_allocations", postgresql_where=sa.text("live")
    )
    op.drop_index(op.f("ix_payment_allocations_order_id"), table_name="payment_allocations")
    op.drop_table("payment_allocations")
    op.drop_index(op.f("ix_order_items_product_id"), table_name="order_items")
    op.drop_table("order_items")
    op.drop_index("ix_order_events_order", table_name="order_events")
    op.drop_table("order_events")
    op.drop_table("escrows")
    op.drop_table("cart_items")
    op.drop_index(op.f("ix_quarantined_charges_intent_id"), table_name="quarantined_charges")
    op.drop_table("quarantined_charges")
    op.drop_index("ix_products_vendor", table_name="products")
    op.drop_index(
        "ix_products_rating", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_price", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_popular", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_newest", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_category_price", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_category_newest", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_index(
        "ix_products_campus_newest", table_name="products", postgresql_where=sa.text("status = 'published'")
    )
    op.drop_table("products")
    op.drop_index("ix_orders_vendor", table_name="orders", postgresql_where=sa.text("paid_at IS NOT NULL"))
    op.drop_index(
        "ix_orders_unpaid", table_name="orders", postgresql_where=sa.text("status = 'pending_payment'")
    )
    op.drop_index(
        "ix_orders_checkout", table_name="orders", postgresql_where=sa.text("checkout_id IS NOT NULL")
    )
    op.drop_index("ix_orders_buyer", table_name="orders")
    op.drop_table("orders")
    op.drop_index(op.f("ix_vendor_profiles_campus_id"), table_name="vendor_profiles")
    op.drop_table("vendor_profiles")
    op.drop_index(
        "ix_payment_intents_open",
        table_name="payment_intents",
        postgresql_where=sa.text("status IN ('initialized', 'pending')"),
    )
    op.drop_index(op.f("ix_payment_intents_buyer_id"), table_name="payment_intents")
    op.drop_table("payment_intents")
    op.drop_index(op.f("ix_images_owner_id"), table_name="images")
    op.drop_table("images")
    op.drop_index(
        "uq_addresses_default",
        table_name="addresses",
        postgresql_where=sa.text("is_default AND deleted_at IS NULL"),
    )
    op.drop_index("ix_addresses_user", table_name="addresses")
    op.drop_table("addresses")
    op.drop_index("ix_profiles_email", table_name="profiles")
    op.drop_index(op.f("ix_profiles_campus_id"), table_name="profiles")
    op.drop_table("profiles")
    op.drop_index(op.f("ix_ledger_entries_transaction_id"), table_name="ledger_entries")
    op.drop_index(
        "ix_ledger_entries_order",
        table_name="ledger_entries",
        postgresql_where=sa.text("order_id IS NOT NULL"),
    )
    op.drop_index("ix_ledger_entries_account", table_name="ledger_entries")
    op.drop_table("ledger_entries")
    op.drop_index(op.f("ix_hubs_campus_id"), table_name="hubs")
    op.drop_table("hubs")
    op.drop_index(op.f("ix_hostels_campus_id"), table_name="hostels")
    op.drop_table("hostels")
    op.drop_index("ix_dead_letter_webhooks_died", table_name="dead_letter_webhooks")
    op.drop_table("dead_letter_webhooks")
    op.drop_index(op.f("ix_campus_email_domains_campus_id"), table_name="campus_email_domains")
    op.drop_table("campus_email_domains")
    op.drop_index("ix_webhook_inbox_received", table_name="webhook_inbox")
    op.drop_index(
        "ix_webhook_inbox_due",
        table_name="webhook_inbox",
        postgresql_where=sa.text("status IN ('received', 'retrying')"),
    )
    op.drop_index(op.f("ix_webhook_inbox_dedupe_id"), table_name="webhook_inbox")
    op.drop_table("webhook_inbox")
    op.drop_table("processed_webhook_events")
    op.drop_table("platform_settings")
    op.drop_index(
        "ix_outbox_events_due",
        table_name="outbox_events",
        postgresql_where=sa.text("done_at IS NULL AND failed_at IS NULL"),
    )
    op.drop_table("outbox_events")
    op.drop_table("ledger_transactions")
    op.drop_index(op.f("ix_ledger_accounts_owner_id"), table_name="ledger_accounts")
    op.drop_table("ledger_accounts")
    op.drop_index(op.f("ix_idempotency_keys_expires_at"), table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
    op.drop_index(op.f("ix_categories_parent_id"), table_name="categories")
    op.drop_index("ix_categories_lineage", table_name="categories", postgresql_using="gin")
    op.drop_table("categories")
    op.drop_table("campuses")
    op.drop_table("audit_logs")
    op.drop_table("admin_roles")
    op.execute(sa.schema.DropSequence(sa.Sequence("order_number")))
