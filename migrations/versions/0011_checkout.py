"""An order's subtotal is the sum of its lines, whatever the code does."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the trigger."""
    # The lines of an order come in one statement with it, so the check is made once for each order.
    op.execute(
        """
        CREATE FUNCTION check_order_items() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            wrong text;
        BEGIN
            SELECT o.number INTO wrong
            FROM orders o
            WHERE o.id IN (SELECT order_id FROM added) AND o.subtotal_minor <> (
                SELECT sum(i.line_total_minor) FROM order_items i WHERE i.order_id = o.id)
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'the lines of order % are not its subtotal', wrong USING ERRCODE = 'check_violation';
            END IF;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER order_items_subtotal AFTER INSERT ON order_items REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION check_order_items()"
    )


def downgrade() -> None:
    """Drop it."""
    op.execute("DROP TRIGGER order_items_subtotal ON order_items")
    op.execute("DROP FUNCTION check_order_items()")
