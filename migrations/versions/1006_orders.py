"""Carts, orders, their items and events, and escrows."""

from alembic import op

revision = "1006"
down_revision = "1005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, the order number and the triggers."""
    op.execute("CREATE SEQUENCE order_number START WITH 100001")
    op.execute("""
    CREATE TABLE cart_items (
        user_id uuid NOT NULL CONSTRAINT fk_cart_items_user_id REFERENCES profiles,
        product_id uuid NOT NULL CONSTRAINT fk_cart_items_product_id REFERENCES products,
        quantity bigint NOT NULL,
        price_minor_seen bigint NOT NULL,
        position bigint NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_cart_items PRIMARY KEY (user_id, product_id),
        CONSTRAINT ck_cart_items_quantity CHECK (quantity BETWEEN 1 AND 1000)
    );
    COMMENT ON COLUMN cart_items.price_minor_seen IS 'The price at the last synchronization of the cart';
    """)
    # An order changes six times. Room on the page saves the indexes an entry for each change of unindexed columns.
    op.execute("""
    CREATE TABLE orders (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_orders PRIMARY KEY,
        number text NOT NULL DEFAULT 'CM-' || nextval('order_number')::text,
        buyer_id uuid NOT NULL CONSTRAINT fk_orders_buyer_id REFERENCES profiles,
        vendor_id uuid NOT NULL CONSTRAINT fk_orders_vendor_id REFERENCES vendor_profiles,
        campus_id uuid NOT NULL CONSTRAINT fk_orders_campus_id REFERENCES campuses,
        checkout_id uuid,
        status text NOT NULL,
        subtotal_minor bigint NOT NULL,
        delivery_fee_minor bigint NOT NULL,
        service_fee_minor bigint NOT NULL,
        discount_minor bigint NOT NULL,
        total_minor bigint NOT NULL,
        currency text NOT NULL DEFAULT 'NGN',
        delivery_method text NOT NULL,
        shipping_address jsonb NOT NULL,
        note text,
        tracking_note text,
        payment_reference text,
        payment_status text,
        payment_channel text,
        pin_counter bigint NOT NULL DEFAULT 0,
        pin_failures bigint NOT NULL DEFAULT 0,
        pin_locked_until timestamptz,
        expires_at timestamptz NOT NULL,
        paid_at timestamptz,
        accepted_at timestamptz,
        shipped_at timestamptz,
        delivered_at timestamptz,
        cancelled_at timestamptz,
        expired_at timestamptz,
        cancelled_by text,
        cancellation_reason text,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        wallet_minor bigint NOT NULL DEFAULT 0,
        disputed_at timestamptz,
        refunded_at timestamptz,
        accepted_minor bigint NOT NULL DEFAULT 0,
        CONSTRAINT uq_orders_number UNIQUE (number),
        CONSTRAINT ck_orders_status
            CHECK (status IN ('pending_payment', 'paid_escrow', 'processing', 'shipped', 'delivered',
                'disputed', 'cancelled', 'expired', 'refunded')),
        CONSTRAINT ck_orders_amounts_not_negative
            CHECK (least(subtotal_minor, delivery_fee_minor, service_fee_minor, discount_minor) >= 0),
        CONSTRAINT ck_orders_total
            CHECK (total_minor = subtotal_minor + delivery_fee_minor + service_fee_minor - discount_minor
                AND total_minor > 0),
        CONSTRAINT ck_orders_parts_within_total
            CHECK (least(wallet_minor, accepted_minor) >= 0 AND wallet_minor + accepted_minor <= total_minor),
        CONSTRAINT ck_orders_delivery_method CHECK (delivery_method IN ('delivery', 'pickup'))
    ) WITH (fillfactor = 60);
    COMMENT ON COLUMN orders.wallet_minor IS 'The part of the total that the wallet paid at placing';
    COMMENT ON COLUMN orders.accepted_minor IS
        'The accepted part of quarantined charges, before the remainder was paid';
    CREATE INDEX ix_orders_buyer ON orders (buyer_id, id DESC);
    CREATE INDEX ix_orders_campus ON orders (campus_id, id DESC);
    CREATE INDEX ix_orders_checkout ON orders (checkout_id) WHERE checkout_id IS NOT NULL;
    CREATE INDEX ix_orders_created ON orders (created_at, id);
    CREATE INDEX ix_orders_unpaid ON orders (buyer_id) WHERE status = 'pending_payment';
    CREATE INDEX ix_orders_status ON orders (status, created_at, id);
    CREATE INDEX ix_orders_vendor_in_escrow ON orders (status, vendor_id)
        WHERE status IN ('paid_escrow', 'processing', 'shipped', 'disputed');
    CREATE INDEX ix_orders_total ON orders (total_minor, id);
    CREATE INDEX ix_orders_vendor ON orders (vendor_id, id DESC);
    CREATE INDEX ix_orders_paid ON orders (paid_at NULLS FIRST, id);
    """)
    op.execute("""
    CREATE TABLE order_items (
        order_id uuid NOT NULL CONSTRAINT fk_order_items_order_id REFERENCES orders,
        position bigint NOT NULL,
        product_id uuid NOT NULL CONSTRAINT fk_order_items_product_id REFERENCES products,
        title text NOT NULL,
        image_key text,
        unit_price_minor bigint NOT NULL,
        quantity bigint NOT NULL,
        line_total_minor bigint NOT NULL,
        commission_bps bigint NOT NULL,
        flash_sale_id uuid CONSTRAINT fk_order_items_flash_sale_id REFERENCES flash_sales,
        refunded_quantity bigint NOT NULL DEFAULT 0,
        CONSTRAINT pk_order_items PRIMARY KEY (order_id, position),
        CONSTRAINT ck_order_items_line_total
            CHECK (line_total_minor = unit_price_minor * quantity AND unit_price_minor > 0),
        CONSTRAINT ck_order_items_quantity CHECK (quantity BETWEEN 1 AND 1000),
        CONSTRAINT ck_order_items_refunded_quantity CHECK (refunded_quantity BETWEEN 0 AND quantity),
        CONSTRAINT ck_order_items_commission_bps CHECK (commission_bps BETWEEN 0 AND 10000)
    );
    COMMENT ON COLUMN order_items.flash_sale_id IS 'The flash sale whose price and units the line uses';
    COMMENT ON COLUMN order_items.refunded_quantity IS 'Refunded units; each unit is refunded once';
    CREATE INDEX ix_order_items_image_key ON order_items (image_key);
    CREATE INDEX ix_order_items_product_id ON order_items (product_id);
    """)
    # One statement inserts all items of an order, so a statement trigger checks each order once.
    op.execute("""
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
            RAISE EXCEPTION 'items of order % do not add up to the subtotal', wrong USING ERRCODE = 'check_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER order_items_subtotal AFTER INSERT ON order_items REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION check_order_items();
    """)
    op.execute("""
    CREATE TABLE order_events (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_order_events PRIMARY KEY,
        order_id uuid NOT NULL CONSTRAINT fk_order_events_order_id REFERENCES orders,
        from_status text,
        to_status text NOT NULL,
        trigger text NOT NULL,
        actor text NOT NULL,
        actor_id uuid,
        note text,
        at timestamptz NOT NULL
    );
    CREATE INDEX ix_order_events_order ON order_events (order_id, id);
    """)
    op.execute("""
    CREATE TRIGGER order_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON order_events
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    """)
    op.execute("""
    CREATE TABLE escrows (
        order_id uuid CONSTRAINT pk_escrows PRIMARY KEY CONSTRAINT fk_escrows_order_id REFERENCES orders,
        status text NOT NULL,
        amount_minor bigint NOT NULL,
        released_minor bigint NOT NULL DEFAULT 0,
        refunded_minor bigint NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        clawed_back_minor bigint NOT NULL DEFAULT 0,
        CONSTRAINT ck_escrows_status
            CHECK (status IN ('pending', 'held', 'frozen', 'released', 'refunded', 'partially_refunded')),
        CONSTRAINT ck_escrows_amount_positive CHECK (amount_minor > 0),
        CONSTRAINT ck_escrows_within_amount
            CHECK (released_minor >= 0 AND refunded_minor >= 0 AND released_minor + refunded_minor <=
                amount_minor),
        CONSTRAINT ck_escrows_clawed_back CHECK (clawed_back_minor BETWEEN 0 AND released_minor)
    );
    COMMENT ON COLUMN escrows.clawed_back_minor IS 'The released amount that was taken back for the buyer';
    CREATE INDEX ix_escrows_status ON escrows (status);
    """)


def downgrade() -> None:
    """Drop the tables, the order number and the triggers."""
    op.execute("DROP TABLE escrows, order_events, order_items, orders, cart_items")
    op.execute("DROP FUNCTION check_order_items()")
    op.execute("DROP SEQUENCE order_number")
