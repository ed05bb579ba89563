"""What is measured on: products, stores, buyers and orders, made by the database itself, ids by number."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson
import psycopg2
from psycopg2.extras import execute_values

from marketplace.catalog.search import index_maintenance
from marketplace.infra.db import Database
from marketplace.ledger.accounts import vendor_payable, wallet
from sandbox.servers import EmbeddedPostgres

CAMPUSES = 2
CATEGORIES = 40
STORES = 200
# Escrow is released to so many stores: enough that requests seldom wait for each other's balance.
RELEASING_STORES = 32
IMAGES = 500
SOLD_OUT_EVERY = 20  # of the products
# What titles and tags are made of: common words, brands, and what the things are.
QUALITIES = ("New", "Used", "Original", "Fairly used", "Brand new", "Clean", "Cheap")
BRANDS = (
    *(
        "Casio",
        "Samsung",
        "Tecno",
        "Infinix",
        "Apple",
        "Dell",
        "Lenovo",
        "Oraimo",
        "Binatone",
        "Nike",
        "Adidas",
    ),
    *("Zara", "Stroud", "Campbell", "Guyton", "Sharp", "Sony", "Yamaha", "Spalding"),
)
THINGS = (
    *(
        "scientific calculator",
        "laptop",
        "phone charger",
        "power bank",
        "earphones",
        "phone",
        "tablet",
        "router",
    ),
    *(
        "rice cooker",
        "standing fan",
        "extension box",
        "reading lamp",
        "mattress",
        "pillow",
        "curtain",
        "bucket",
    ),
    *(
        "sneakers",
        "T-shirt",
        "hoodie",
        "backpack",
        "wristwatch",
        "wig",
        "perfume",
        "jeans",
        "jersey",
        "sandals",
    ),
    *("engineering textbook", "past questions", "lab coat", "drawing board", "notebook", "highlighter set"),
    *("guitar", "keyboard", "football", "bicycle", "hot plate", "kettle", "blender", "iron", "mirror"),
)
TAGS = ("used", "study", "exam", "gadget", "fashion", "hostel", "kitchen", "music", "sport", "beauty", "room")
_KINDS = {
    name: number
    for number, name in enumerate(
        (
            *("campus", "category", "buyer", "merchant", "store", "product", "image", "shipped", "payable"),
            *("charged", "intent", "event"),
        ),
        start=1,
    )
}
# Ids end in a number of twelve digits, so that pgbench's integers can stand for their ends.
FIRST_NUMBER = 100_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How many rows there are.

    :param products: published ones
    :param buyers: each with a saved address
    :param shipped: orders that wait for their PIN
    :param payable: orders that wait for payment
    :param charged: orders whose payment the gateway has told of, each time in an event that waits in the inbox
    """

    products: int
    buyers: int
    shipped: int
    payable: int
    charged: int

    @classmethod
    def lasting(cls, products: int, *, seconds: float) -> "Sizes":
        """Make enough orders and buyers for so many seconds of load on each side."""
        return cls(
            products,
            buyers=int(4_000 + 2_500 * seconds),
            shipped=int(10_000 + 6_000 * seconds),
            payable=int(500 + 300 * seconds),
            charged=int(2_000 + 2_500 * seconds),
        )


def row_id(kind: str, number: int) -> str:
    """Give the id of a row.

    :param kind: campus, category, buyer, merchant, store, product, image, shipped, payable, charged, intent or event
    :param number: from 0
    """
    return f"00000000-0000-7{_KINDS[kind]:03d}-8000-{FIRST_NUMBER + number}"


def charge_event(number: int) -> bytes:
    """Write the gateway's event of a charge, of the usual size.

    :param number: of the payment that it is for, from 0
    """
    return orjson.dumps(
        {
            "event": "charge.success",
            "data": {
                "id": charge_id(number),
                "domain": "test",
                "status": "success",
                "reference": reference(number),
                "amount": 310_000,
                "message": None,
                "gateway_response": "Successful",
                "paid_at": "2026-01-05T10:00:00.000Z",
                "created_at": "2026-01-05T09:58:00.000Z",
                "channel": "card",
                "currency": "NGN",
                "ip_address": "203.0.113.7",
                "metadata": {"orderId": row_id("charged", number), "settlement": "platform_escrow"},
                "fees": 4_650,
                "customer": {"id": number, "email": "buyer@example.edu", "customer_code": "CUS_x"},
                "authorization": {"bank": "Test Bank", "card_type": "visa", "channel": "card"},
            },
        }
    )


def charge_id(number: int) -> int:
    """Give the gateway's id of a payment's charge."""
    return 1_000_000_000 + number


def charged_product(number: int, *, products: int) -> int:
    """Give the number of the product that a paid order is of.

    They are many, so that payments seldom wait for each other's stock, and in stock.

    :param number: of the payment
    :param products: how many there are
    """
    return number % (products // SOLD_OUT_EVERY) * SOLD_OUT_EVERY + 1


def reference(number: int) -> str:
    """Give a payment's reference."""
    return f"checkout-{number:032x}"


def load(server: EmbeddedPostgres, sizes: Sizes) -> None:
    """Fill a migrated database, in one transaction.

    :param server: runs
    :param sizes: how many rows there are
    """
    connection = psycopg2.connect(server.url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            for kind, digits in _KINDS.items():
                cursor.execute(
                    f"CREATE FUNCTION pg_temp.{kind}(n bigint) RETURNS uuid IMMUTABLE LANGUAGE sql AS"
                    f" $$ SELECT ('00000000-0000-7{digits:03d}-8000-' || ({FIRST_NUMBER} + n))::uuid $$"
                )
            parameters = vars(sizes) | {
                "campuses": CAMPUSES,
                "categories": CATEGORIES,
                "stores": STORES,
                "releasing": RELEASING_STORES,
                "images": IMAGES,
                "sold_out": SOLD_OUT_EVERY,
                "qualities": list(QUALITIES),
                "brands": list(BRANDS),
                "things": list(THINGS),
                "tags": list(TAGS),
            }
            for statement in _STATEMENTS:
                cursor.execute(statement, parameters)
            # Nobody's first payment or release, which would open an account.
            owners = [vendor_payable(UUID(row_id("store", number))) for number in range(RELEASING_STORES)]
            owners += [wallet(UUID(row_id("buyer", number))) for number in range(sizes.buyers)]
            accounts = [(str(owner.id), owner.kind, str(owner.owner_id), "credit", 0) for owner in owners]
            execute_values(cursor, _OPEN_ACCOUNTS, accounts)
            events = [(row_id("event", number), charge_event(number)) for number in range(sizes.charged)]
            execute_values(
                cursor,
                "INSERT INTO webhook_inbox (id, provider, body) VALUES %s",
                events,
                "(%s, 'gateway', %s)",
            )
    finally:
        connection.close()


def settle(server: EmbeddedPostgres) -> None:
    """Count the words of the search, and sort, analyse and write out the new rows.

    :param server: runs
    """
    database = Database(server.url, pool_size=1, application_name="bench")
    database.in_transaction(index_maintenance.refresh_search_index, now=datetime.now(UTC))
    database.close()
    connection = psycopg2.connect(server.url, connect_timeout=5)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            # The plan of the trigger that inserts documents varies from run to run, and the order of the rows with
            # it: a search took up to a quarter more time when documents with equal words lay far apart.
            cursor.execute("CREATE INDEX bench_order ON search_documents (md5(product_id::text))")
            cursor.execute("CLUSTER search_documents USING bench_order")
            cursor.execute("DROP INDEX bench_order")
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")
    finally:
        connection.close()


_OPEN_ACCOUNTS = "INSERT INTO ledger_accounts (id, kind, owner_id, normal_side, balance_minor) VALUES %s"
_STATEMENTS = (
    """INSERT INTO campuses (id, name, slug)
    SELECT pg_temp.campus(n), 'Campus ' || n, 'campus-' || n FROM generate_series(0, %(campuses)s - 1) n""",
    # Every eighth is a root; the seven after it are its children.
    """INSERT INTO categories (id, parent_id, name, slug, position, lineage)
    SELECT pg_temp.category(n), CASE WHEN n %% 8 > 0 THEN pg_temp.category(n - n %% 8) END, 'Category ' || n,
        'category-' || n, n, array_remove(ARRAY[pg_temp.category(n - n %% 8),
            CASE WHEN n %% 8 > 0 THEN pg_temp.category(n) END], NULL)
    FROM generate_series(0, %(categories)s - 1) n""",
    """INSERT INTO profiles (id, email, name, campus_id, role)
    SELECT pg_temp.buyer(n), 'buyer' || n || '@example.edu', 'Buyer ' || n, pg_temp.campus(n %% %(campuses)s),
        'buyer' FROM generate_series(0, %(buyers)s - 1) n
    UNION ALL
    SELECT pg_temp.merchant(n), 'merchant' || n || '@example.edu', 'Merchant ' || n,
        pg_temp.campus(n %% %(campuses)s), 'vendor' FROM generate_series(0, %(stores)s - 1) n""",
    """INSERT INTO addresses (user_id, label, hostel, hall, room_number, phone, is_default)
    SELECT pg_temp.buyer(n), 'Room', 'Unity Hostel', 'Block C', 'C' || n, '+2347000000000', true
    FROM generate_series(0, %(buyers)s - 1) n""",
    """INSERT INTO vendor_profiles (id, user_id, campus_id, display_name, slug, verified, rating_sum, rating_count,
        completed_orders)
    SELECT pg_temp.store(n), pg_temp.merchant(n), pg_temp.campus(n %% %(campuses)s), 'Store number ' || n,
        'store-' || n, n %% 3 = 0, n * 17 %% 400, n * 17 %% 400 / 4 + 1, n
    FROM generate_series(0, %(stores)s - 1) n""",
    """INSERT INTO images (id, owner_id, key)
    SELECT pg_temp.image(n), pg_temp.merchant(n %% %(stores)s), 'products/' || md5(n::text) || '-medium.webp'
    FROM generate_series(0, %(images)s - 1) n""",
    """INSERT INTO products (id, vendor_id, campus_id, category_id, title, description, price_minor, condition,
        quantity, tags, cover_key, status, popularity, rating_sum, rating_count, screened_at, published_at,
        created_at, updated_at)
    SELECT pg_temp.product(n), pg_temp.store(n %% %(stores)s), pg_temp.campus(n %% %(stores)s %% %(campuses)s),
        pg_temp.category(n * 7 %% %(categories)s),
        (%(qualities)s::text[])[n %% cardinality(%(qualities)s::text[]) + 1] || ' '
            || (%(brands)s::text[])[n * 7 %% cardinality(%(brands)s::text[]) + 1] || ' '
            || (%(things)s::text[])[n * 11 %% cardinality(%(things)s::text[]) + 1] || ', model ' || n,
        repeat('Used for two semesters, works well, comes with its cover and a manual. ', 4)
            || 'Sold with a ' || (%(things)s::text[])[n * 13 %% cardinality(%(things)s::text[]) + 1] || '.',
        10000 + n::bigint * 7919 %% 5000000, (ARRAY['new', 'like_new', 'good', 'fair'])[n %% 4 + 1],
        CASE WHEN n %% %(sold_out)s = 0 THEN 0 ELSE 100000 END,
        ARRAY['campus', (%(tags)s::text[])[n * 17 %% cardinality(%(tags)s::text[]) + 1]],
        'products/' || md5((n %% %(images)s)::text) || '-medium.webp', 'published', n * 31 %% 997,
        n * 13 %% 90, n * 13 %% 90 / 4 + 1, now(), made, made, made
    FROM (SELECT n, now() - n::bigint * 7001 %% 50000000 * interval '1 second' AS made
        FROM generate_series(0, %(products)s - 1) n) numbers""",
    """INSERT INTO product_images (product_id, position, image_id)
    SELECT pg_temp.product(n), p, pg_temp.image((n + p) %% %(images)s)
    FROM generate_series(0, %(products)s - 1) n, generate_series(0, 1) p""",
    """INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, payment_reference,
        payment_status, payment_channel, expires_at, created_at, updated_at, paid_at, accepted_at, shipped_at)
    SELECT pg_temp.shipped(n), pg_temp.buyer(n %% %(buyers)s), pg_temp.store(n %% %(releasing)s),
        pg_temp.campus(n %% %(releasing)s %% %(campuses)s), 'shipped', 250000, 50000, 10000, 0, 310000, 'delivery',
        '{"hostel": "Unity Hostel", "roomNumber": "C7"}', 'checkout-' || md5(n::text), 'succeeded', 'card',
        now(), now(), now(), now(), now(), now()
    FROM generate_series(0, %(shipped)s - 1) n""",
    """INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, expires_at, created_at,
        updated_at)
    SELECT pg_temp.payable(n), pg_temp.buyer(n %% %(buyers)s), pg_temp.store(n %% %(stores)s),
        pg_temp.campus(n %% %(stores)s %% %(campuses)s), 'pending_payment', 250000, 50000, 10000, 0, 310000, 'delivery',
        '{"hostel": "Unity Hostel", "roomNumber": "C7"}', now() + interval '1 day', now(), now()
    FROM generate_series(0, %(payable)s - 1) n""",
    """INSERT INTO order_items (order_id, position, product_id, title, unit_price_minor, quantity,
        line_total_minor, commission_bps)
    SELECT id, 0, pg_temp.product(1), 'Scientific calculator', 250000, 1, 250000, 500 FROM orders""",
    # Of the products that charged_product tells.
    """INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, expires_at, created_at,
        updated_at)
    SELECT pg_temp.charged(n), pg_temp.buyer(n %% %(buyers)s), pg_temp.store(n %% %(stores)s),
        pg_temp.campus(n %% %(stores)s %% %(campuses)s), 'pending_payment', 250000, 50000, 10000, 0, 310000, 'delivery',
        '{"hostel": "Unity Hostel", "roomNumber": "C7"}', now() + interval '1 day', now(), now()
    FROM generate_series(0, %(charged)s - 1) n""",
    """INSERT INTO order_items (order_id, position, product_id, title, unit_price_minor, quantity,
        line_total_minor, commission_bps)
    SELECT pg_temp.charged(n), 0, pg_temp.product(n %% (%(products)s / %(sold_out)s) * %(sold_out)s + 1),
        'Scientific calculator', 250000, 1, 250000, 500 FROM generate_series(0, %(charged)s - 1) n""",
    """UPDATE products SET reserved = ordered.pieces
    FROM (SELECT product_id, count(*) AS pieces FROM order_items JOIN orders ON orders.id = order_id
        WHERE orders.id >= pg_temp.charged(0) GROUP BY product_id) ordered WHERE products.id = ordered.product_id""",
    """INSERT INTO payment_intents (id, reference, buyer_id, amount_minor, status)
    SELECT pg_temp.intent(n), 'checkout-' || lpad(to_hex(n), 32, '0'), pg_temp.buyer(n %% %(buyers)s), 310000, 'pending'
    FROM generate_series(0, %(charged)s - 1) n""",
    """INSERT INTO payment_allocations (intent_id, order_id, amount_minor)
    SELECT pg_temp.intent(n), pg_temp.charged(n), 310000 FROM generate_series(0, %(charged)s - 1) n""",
    """INSERT INTO escrows (order_id, status, amount_minor)
    SELECT id, CASE WHEN paid_at IS NULL THEN 'pending' ELSE 'held' END, total_minor FROM orders""",
    """INSERT INTO order_events (order_id, to_status, trigger, actor, actor_id, at)
    SELECT id, 'pending_payment', 'place', 'buyer', buyer_id, created_at FROM orders""",
    """INSERT INTO order_events (order_id, from_status, to_status, trigger, actor, at)
    SELECT id, 'pending_payment', 'paid_escrow', 'pay', 'gateway', paid_at FROM orders WHERE paid_at IS NOT NULL""",
    # As the payments left it: without rows here, the first releases would be planned for empty tables.
    """INSERT INTO ledger_transactions (kind, source, description)
    SELECT 'payment', 'charge:' || id, 'Payment received' FROM orders WHERE paid_at IS NOT NULL""",
    """INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor, order_id)
    SELECT t.id, t.kind, a.id, a.normal_side, 310000, substr(t.source, 8)::uuid
    FROM ledger_transactions t, ledger_accounts a WHERE a.kind IN ('gateway_clearing', 'escrow')""",
)
