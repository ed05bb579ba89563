"""Command ``marketplace seed``: deterministic demo data, a consistent ledger, and refusal on real data."""

import hashlib
import io
import re
from collections.abc import Iterator

import pytest
import requests
from PIL import Image
from sqlalchemy import select

from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.kernel import demo_ids
from marketplace.orders.models import Order
from marketplace.orders.pin import delivery_pin
from marketplace.payouts.models import PayoutAccount
from sandbox.personas import PERSONAS
from tests.support.encryption_keys import BLIND_INDEX_KEY, DATA_ENCRYPTION_KEYS
from tests.support.installation import Installation, query, start_installation
from tests.support.servers import Addresses

MANY = 3_001  # the first number that is spread over the stores of load tests
# Columns that are equal in every run. Times and references of orders may differ.
CONTENT = {
    "campuses": "id, slug, name",
    "campus_email_domains": "domain, campus_id",
    "hostels": "id, campus_id, name",
    "hubs": "id, name, address, opening_hours, latitude, longitude",
    "categories": "id, parent_id, name, slug, position, lineage",
    "profiles": "id, email, name, encode(phone_index, 'hex'), campus_id, role, staff_role, account_status, badges",
    "addresses": "id, user_id, hostel, hall, room_number, is_default",
    "vendor_profiles": "id, user_id, display_name, slug",
    "payout_accounts": "id, user_id, bank_code, bank_name, encode(account_number_index, 'hex'), account_name",
    "images": "id, owner_id, key, renditions",
    "products": "id, vendor_id, category_id, title, description, price_minor, condition, quantity, tags, cover_key",
    "product_images": "product_id, position, image_id",
    "orders": "id, number, buyer_id, vendor_id, status, total_minor, delivery_method, shipping_address",
    "flash_sales": "id, product_id, sale_price_minor, percent_off, quantity",
    "banners": "id, title, subtitle, placement, link, image_id, position",
    "vibes": "id, slug, title, description, campus_id, image_id, position",
    "vibe_products": "position, product_id",
    "featured_products": "id, product_id, campus_id, position",
    "order_items": "order_id, position, product_id, title, quantity, unit_price_minor",
    "reviews": "id, order_id, rating, text, reply_text, counted",
    "review_products": "review_id, product_id",
    "favorites": "user_id, product_id, known_price_minor",
    "platform_proposals": "id, kind, payload",
    "payout_batches": "id, status, staged_by",
    "reconciliations": "id, status, gateway_minor",
    "webhook_inbox": "id, status, event_type, encode(body, 'escape')",
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Installation]:
    with start_installation(tmp_path_factory.mktemp("installation"), addresses) as installation:
        output = installation.ok("seed")
        assert (
            "Added 300 products, 19 orders, 4 reviews, 8 favourites, 17 promotions, 2 messages, 2 tickets, 1 disputes,"
            " 7 reports, 6 vendor applications, 2 referrals" in output
        )
        assert "and 5 items of staff work" in output
        yield installation


@pytest.fixture(scope="module")
def database(seeded: Installation) -> str:
    return seeded.database_url


def gateway_balance(seeded: Installation) -> int:
    answer = requests.get(
        f"{seeded.providers.gateway_url}/balance",
        headers={"Authorization": f"Bearer {seeded.environment['GATEWAY_SECRET_KEY']}"},
        timeout=10,
    )
    return int(answer.json()["data"][0]["balance"])


@pytest.fixture(scope="module", autouse=True)
def first_balance(seeded: Installation) -> int:
    """The gateway balance after the first run, before other databases are seeded."""
    return gateway_balance(seeded)


def content(url: str) -> dict[str, str]:
    """Return a digest of the content of each table."""
    digests = {}
    for table, columns in CONTENT.items():
        rows = query(url, f"SELECT {columns} FROM {table} ORDER BY {columns}")
        digests[table] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return digests


def count(url: str, table: str) -> int:
    return int(query(url, f"SELECT count(*) FROM {table}")[0][0])


def test_seed_has_two_campuses_with_hubs_and_hostels(database: str) -> None:
    assert query(database, "SELECT slug FROM campuses ORDER BY slug") == [("north",), ("south",)]
    assert query(
        database,
        "SELECT count(*) FROM campuses c WHERE NOT EXISTS (SELECT FROM hubs WHERE campus_id = c.id)"
        " OR NOT EXISTS (SELECT FROM hostels WHERE campus_id = c.id)",
    ) == [(0,)]
    assert all(hours for (hours,) in query(database, "SELECT opening_hours FROM hubs"))


def test_category_tree_has_three_levels_and_correct_lineages(database: str) -> None:
    rows = query(database, "SELECT id::text, parent_id::text, lineage::text[] FROM categories")
    lineages = {own: lineage for own, _, lineage in rows}
    assert 35 <= len(rows) <= 60
    assert {len(lineage) for lineage in lineages.values()} == {1, 2, 3}
    for own, parent, lineage in rows:
        assert lineage == ([*lineages[parent], own] if parent else [own])


def test_personas_match_sandbox_tokens_and_have_stores(database: str) -> None:
    rows = query(
        database,
        "SELECT p.id::text, p.email, p.role, p.staff_role, p.account_status, c.slug"
        " FROM profiles p JOIN campuses c ON c.id = p.campus_id WHERE p.email = ANY(%s)",
        [persona.email for persona in PERSONAS],
    )
    assert sorted(rows) == sorted(
        (str(p.user_id), p.email, p.role, p.staff_role, p.account_status, p.campus)
        for p in PERSONAS
        if p.has_profile
    )
    stores = query(
        database,
        "SELECT count(a.id) FILTER (WHERE a.created_at < now() - interval '25 hours'),"
        " (SELECT count(DISTINCT vendor_id) FROM products) FROM vendor_profiles v"
        " LEFT JOIN payout_accounts a ON a.user_id = v.user_id AND a.replaced_at IS NULL",
    )
    assert stores == [(12, 12)]


def test_products_are_in_stock_and_have_readable_pictures(seeded: Installation, database: str) -> None:
    rows = query(
        database,
        "SELECT count(*), count(DISTINCT title), count(DISTINCT cover_key), min(available), min(price_minor % 5000),"
        " max(price_minor % 5000), count(*) FILTER (WHERE status = 'published' AND screened_at IS NOT NULL)"
        " FROM products",
    )
    assert rows == [(300, 300, 300, rows[0][3], 0, 0, 300)]
    assert rows[0][3] >= 5
    keys = [key for (key,) in query(database, "SELECT DISTINCT key FROM images ORDER BY key")]
    assert len(keys) == 360
    for key in keys[::60]:
        answer = requests.get(f"{seeded.storage.url}/{seeded.storage.public_bucket}/{key}", timeout=10)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "image/webp"
        assert "immutable" in answer.headers["Cache-Control"]
        assert key == f"products/{hashlib.sha256(answer.content).hexdigest()}.webp"
        with Image.open(io.BytesIO(answer.content)) as picture:
            assert (picture.format, picture.size) == ("WEBP", (480, 360))


def test_seed_has_orders_in_each_status_and_a_consistent_ledger(seeded: Installation, database: str) -> None:
    statuses = dict(query(database, "SELECT status, count(*) FROM orders GROUP BY status"))
    assert statuses.keys() == {
        *(
            "pending_payment",
            "paid_escrow",
            "processing",
            "shipped",
            "delivered",
            "cancelled",
            "expired",
            "refunded",
        )
    }
    assert "The ledger is consistent." in seeded.ok("ledger", "verify")
    unpaid_by_personas = query(
        database,
        "SELECT id::text, buyer_id::text FROM orders WHERE status = 'pending_payment' AND buyer_id = ANY(%s::uuid[])",
        [str(persona.user_id) for persona in PERSONAS],
    )
    # Few unpaid orders are allowed, and the personas need that limit.
    assert unpaid_by_personas == [(str(demo_ids.UNPAID_ORDER), str(demo_ids.BUYER))]
    [(late,)] = query(
        database, "SELECT count(*) FROM order_events e WHERE at > now() OR at < now() - interval '60 days'"
    )
    assert late == 0


def test_gateway_balance_equals_the_ledger(seeded: Installation, first_balance: int) -> None:
    [(clearing,)] = query(
        seeded.database_url,
        "SELECT sum(CASE e.direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END)"
        " FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id WHERE a.kind = 'gateway_clearing'",
    )
    assert first_balance == int(clearing) > 0


def test_second_seed_adds_nothing(seeded: Installation, database: str) -> None:
    before = content(database)
    assert "nothing was done" in seeded.ok("seed", "--if-empty")
    assert (
        "Added 0 products, 0 orders, 0 reviews, 0 favourites, 0 promotions, 0 messages, 0 tickets, 0 disputes,"
        " 0 reports,"
        " 0 vendor applications, 0 referrals and 0 items of staff work" in seeded.ok("seed")
    )
    assert content(database) == before


def test_seed_is_deterministic_and_completes_an_interrupted_run(seeded: Installation, database: str) -> None:
    other = seeded.create_migrated_database("other")
    # Without a gateway no order can be paid. The next run completes the data. String hashes differ from the first run.
    done = seeded.run("seed", DATABASE_URL=other, GATEWAY_URL="", PYTHONHASHSEED="1")
    assert done.returncode == 0, done.stderr
    assert "paid orders are left out" in done.stderr
    [(paid,)] = query(other, "SELECT count(*) FROM orders WHERE paid_at IS NOT NULL")
    assert paid == 0
    assert "Added 0 products" in seeded.ok("seed", DATABASE_URL=other)
    expected, found = content(database), content(other)
    # Orders that were omitted at first are created later and get other numbers.
    for table in ("orders", "order_items"):
        del expected[table], found[table]
    assert found == expected
    counts = "SELECT status, count(*) FROM orders GROUP BY status ORDER BY status"
    assert query(other, counts) == query(database, counts)
    assert "The ledger is consistent." in seeded.ok("ledger", "verify", DATABASE_URL=other)


def test_many_products_are_spread_over_many_stores(seeded: Installation) -> None:
    url = seeded.create_migrated_database("many")
    output = seeded.ok("seed", "--products", str(MANY), DATABASE_URL=url)
    assert f"Added {MANY} products" in output
    assert (count(url, "products"), count(url, "vendor_profiles")) == (MANY, 200)
    [(orphans,)] = query(
        url,
        "SELECT count(*) FROM products p WHERE NOT EXISTS (SELECT FROM product_images i JOIN images m"
        " ON m.id = i.image_id WHERE i.product_id = p.id AND i.position = 0 AND m.key = p.cover_key)",
    )
    assert orphans == 0
    same = "SELECT id, title, price_minor, vendor_id, cover_key FROM products ORDER BY id LIMIT 300"
    assert query(url, same) == query(seeded.database_url, same)


def test_seed_is_refused_in_production_and_on_real_data(seeded: Installation, database: str) -> None:
    production = seeded.run(
        "seed",
        ENVIRONMENT="production",
        PUBLIC_BASE_URL="https://api.example.com",
        MESSAGING_APP_SECRET="of-these-tests-only-0123456789abcdef",
    )
    assert production.returncode == 1
    assert "ENVIRONMENT is production" in production.stderr
    url = seeded.create_migrated_database("foreign")
    query(url, "INSERT INTO campuses (name, slug) VALUES ('A real one', 'north')")
    foreign = seeded.run("seed", DATABASE_URL=url)
    assert foreign.returncode == 1
    assert "not part of the demo" in foreign.stderr
    assert "nothing was done" in seeded.ok("seed", "--if-empty", DATABASE_URL=url)
    assert count(url, "profiles") == 0
    assert seeded.run("seed", "--products", "5").returncode == 2


def test_seed_without_object_storage_adds_nothing(seeded: Installation) -> None:
    url = seeded.create_migrated_database("unstored")
    done = seeded.run("seed", DATABASE_URL=url, S3_ENDPOINT_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert "The object storage did not return a valid response" in done.stderr
    assert "Traceback" not in done.stderr
    assert count(url, "campuses") == count(url, "products") == 0


def test_seed_of_database_without_tables_names_the_upgrade_command(seeded: Installation) -> None:
    url = seeded.create_database("bare")
    done = seeded.run("seed", "--if-empty", DATABASE_URL=url)
    assert done.returncode == 1
    assert "marketplace db upgrade" in done.stderr


def test_ratings_of_seeded_stores_equal_the_reviews(seeded: Installation) -> None:
    assert seeded.ok("reviews", "verify") == "All ratings equal the reviews.\n"
    url = seeded.copy_database("rated")
    query(url, "UPDATE reviews SET rating = 1 WHERE rating = 2")
    listed = seeded.run("reviews", "verify", DATABASE_URL=url)
    assert (listed.returncode, "0 1 0 1 0" in listed.stdout) == (1, True)
    assert "Repaired stores: 1" in seeded.ok("reviews", "verify", "--repair", DATABASE_URL=url)
    assert seeded.ok("reviews", "verify", DATABASE_URL=url) == "All ratings equal the reviews.\n"


def test_dump_holds_no_secret_of_a_persona_in_clear(seeded: Installation, database: str) -> None:
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))
    ids = [persona.user_id for persona in PERSONAS]
    connected = Database(database, pool_size=1, application_name="tests")
    with connected.reading() as session:
        numbers = session.scalars(
            select(PayoutAccount.account_number).where(PayoutAccount.user_id.in_(ids))
        ).all()
        orders = session.execute(select(Order.id, Order.pin_counter).where(Order.buyer_id.in_(ids))).all()
    connected.close()
    key = seeded.environment["DELIVERY_PIN_KEY"]
    pins = {delivery_pin(key=key, order_id=order_id, counter=counter) for order_id, counter in orders}
    phones = {persona.phone.removeprefix("+234") for persona in PERSONAS}
    assert len(numbers) >= 3
    assert len(pins) >= 8
    digits = [*numbers, *pins, *phones]
    # A fraction of a second has six digits too.
    secret = re.compile(rf"(?<![0-9.])(?:\+?(?:234|0))?({'|'.join(digits)})(?![0-9])")
    in_hex = re.compile("|".join(word.encode().hex() for word in [*numbers, *phones]))
    names = re.compile("|".join(persona.full_name for persona in PERSONAS if persona.has_profile))

    tables = query(database, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    found, named = {}, set()
    for (table,) in tables:
        for (line,) in query(database, f"SELECT t::text FROM {table} t"):
            if secret.search(line) or in_hex.search(line):
                found[table] = line
            if names.search(line):
                named.add(table)

    assert found == {}
    assert "profiles" in named  # the search finds plain values
