"""What only grows, and what must balance: rules that the database holds whatever the code does."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = (
    "ledger_transactions",
    "ledger_entries",
    "audit_logs",
    "order_events",
    "processed_webhook_events",
)


def upgrade() -> None:
    """Add the triggers."""
    op.execute(
        """
        CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% only grows: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
        END $$
        """
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    # The entries of a transaction come in one statement, so the check is made once for each posting.
    op.execute(
        """
        CREATE FUNCTION check_ledger_entries() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            wrong uuid;
        BEGIN
            SELECT e.transaction_id INTO wrong
            FROM ledger_entries e WHERE e.transaction_id IN (SELECT transaction_id FROM added)
            GROUP BY e.transaction_id
            HAVING sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END) <> 0
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'ledger transaction % does not balance', wrong USING ERRCODE = 'check_violation';
            END IF;
            SELECT t.id INTO wrong
            FROM ledger_transactions t WHERE t.id IN (SELECT transaction_id FROM added)
                AND t.posted_in <> (pg_current_xact_id()::text)::bigint
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'ledger transaction % is posted: it takes no further entries', wrong
                    USING ERRCODE = 'restrict_violation';
            END IF;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER ledger_entries_balance AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION check_ledger_entries()"
    )
    op.execute(
        """
        CREATE FUNCTION check_ledger_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT EXISTS (SELECT FROM ledger_entries WHERE transaction_id = NEW.id) THEN
                RAISE EXCEPTION 'ledger transaction % has no entries', NEW.id USING ERRCODE = 'check_violation';
            END IF;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        "CREATE CONSTRAINT TRIGGER ledger_transactions_entries AFTER INSERT ON ledger_transactions"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_ledger_transaction()"
    )


def downgrade() -> None:
    """Drop the triggers."""
    op.execute("DROP TRIGGER ledger_transactions_entries ON ledger_transactions")
    op.execute("DROP TRIGGER ledger_entries_balance ON ledger_entries")
    for table in APPEND_ONLY:
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")
    for function in ("check_ledger_transaction", "check_ledger_entries", "refuse_change"):
        op.execute(f"DROP FUNCTION {function}()")
