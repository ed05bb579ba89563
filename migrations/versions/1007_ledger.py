"""Double-entry ledger: accounts, transactions and entries."""

from alembic import op

revision = "1007"
down_revision = "1006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and the triggers that enforce balanced transactions."""
    op.execute("""
    CREATE TABLE ledger_accounts (
        id uuid CONSTRAINT pk_ledger_accounts PRIMARY KEY,
        kind text NOT NULL,
        owner_id uuid,
        normal_side text NOT NULL,
        balance_minor bigint,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT uq_ledger_accounts_kind_owner_id UNIQUE NULLS NOT DISTINCT (kind, owner_id),
        CONSTRAINT ck_ledger_accounts_balance_of_owned CHECK ((owner_id IS NULL) = (balance_minor IS NULL)),
        CONSTRAINT ck_ledger_accounts_normal_side CHECK (normal_side IN ('debit', 'credit')),
        CONSTRAINT ck_ledger_accounts_balance_not_negative CHECK (balance_minor >= 0)
    );
    COMMENT ON COLUMN ledger_accounts.id IS 'Derived from the account name';
    CREATE INDEX ix_ledger_accounts_owner_id ON ledger_accounts (owner_id);
    """)
    op.execute("""
    CREATE TABLE ledger_transactions (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_ledger_transactions PRIMARY KEY,
        kind text NOT NULL,
        source text NOT NULL,
        description text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        posted_in bigint NOT NULL DEFAULT (pg_current_xact_id()::text)::bigint,
        CONSTRAINT uq_ledger_transactions_kind_source UNIQUE (kind, source)
    );
    COMMENT ON COLUMN ledger_transactions.posted_in IS
        'The database transaction of the posting: no other transaction may add entries';
    """)
    # The primary key starts with the account, so that a page of a statement reads entries of that account in order.
    # With a key of the id alone, the planner scanned the entries of all accounts for a late page.
    op.execute("""
    CREATE TABLE ledger_entries (
        id uuid NOT NULL DEFAULT uuidv7(),
        transaction_id uuid NOT NULL CONSTRAINT fk_ledger_entries_transaction_id REFERENCES ledger_transactions,
        account_id uuid NOT NULL CONSTRAINT fk_ledger_entries_account_id REFERENCES ledger_accounts,
        direction text NOT NULL,
        amount_minor bigint NOT NULL,
        balance_after_minor bigint,
        order_id uuid,
        created_at timestamptz NOT NULL DEFAULT now(),
        kind text NOT NULL,
        CONSTRAINT pk_ledger_entries PRIMARY KEY (account_id, id),
        CONSTRAINT ck_ledger_entries_direction CHECK (direction IN ('debit', 'credit')),
        CONSTRAINT ck_ledger_entries_amount_positive CHECK (amount_minor > 0)
    );
    COMMENT ON COLUMN ledger_entries.kind IS 'Copy of the transaction''s kind, for an index of statements';
    CREATE INDEX ix_ledger_entries_time ON ledger_entries (account_id, created_at, id)
        WHERE balance_after_minor IS NOT NULL;
    CREATE INDEX ix_ledger_entries_direction ON ledger_entries (account_id, direction, id DESC)
        WHERE balance_after_minor IS NOT NULL;
    CREATE INDEX ix_ledger_entries_kind ON ledger_entries (account_id, kind, id DESC)
        WHERE balance_after_minor IS NOT NULL;
    CREATE INDEX ix_ledger_entries_order ON ledger_entries (order_id, account_id) WHERE order_id IS NOT NULL;
    CREATE INDEX ix_ledger_entries_transaction_id ON ledger_entries (transaction_id);
    """)
    op.execute("""
    CREATE TRIGGER ledger_transactions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transactions
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
    op.execute("""
    CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
    # All entries of a transaction are inserted in one statement, so the check runs once for each posting. The sum is a
    # subquery for each transaction: as a join, the planner merged the whole index of entries with the new rows.
    op.execute("""
    CREATE FUNCTION check_ledger_entries() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        wrong uuid;
    BEGIN
        SELECT a.transaction_id INTO wrong
        FROM (SELECT DISTINCT transaction_id FROM added) a
        WHERE (SELECT sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END)
            FROM ledger_entries e WHERE e.transaction_id = a.transaction_id) <> 0
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'ledger transaction % does not balance', wrong USING ERRCODE = 'check_violation';
        END IF;
        SELECT t.id INTO wrong
        FROM ledger_transactions t WHERE t.id IN (SELECT transaction_id FROM added)
            AND t.posted_in <> (pg_current_xact_id()::text)::bigint
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'ledger transaction % is already posted and takes no further entries', wrong
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER ledger_entries_balance AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION check_ledger_entries();
    """)
    # A transaction is inserted before its entries, so this check waits for the commit.
    op.execute("""
    CREATE FUNCTION check_ledger_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM ledger_entries WHERE transaction_id = NEW.id) THEN
            RAISE EXCEPTION 'ledger transaction % has no entries', NEW.id USING ERRCODE = 'check_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER ledger_transactions_entries AFTER INSERT ON ledger_transactions
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_ledger_transaction();
    """)


def downgrade() -> None:
    """Drop the tables and the triggers."""
    op.execute("DROP TABLE ledger_entries, ledger_transactions, ledger_accounts")
    op.execute("DROP FUNCTION check_ledger_transaction(), check_ledger_entries()")
