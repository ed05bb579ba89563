"""The parts of people and stores, with 100,000 members and 1,000,000 lines of delivered orders."""

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlencode

from bench.data import CAMPUSES, STORES, row_id
from bench.figures import Target
from bench.recorded_reads import RecordedRead, RecordedReads, load_rows
from bench.stand import Stand
from marketplace.analytics import roll_up
from marketplace.infra.db import Database

MEMBERS = 100_000
# The n-th order has n % 4 + 1 lines, so 400,000 orders have 1,000,000 lines.
ORDERS = 400_000
# Every third order has a review, and every tenth member has favourites.
_REVIEWED_EVERY, _FAVORING_EVERY = 3, 10
_FAVORITES, _HUBS = 30, 20
_DAYS = 730
# Members with an access token. Signing a token for each member would take minutes.
_READERS = 2_000
_SEED = 13
_LOAD_SECONDS = 600
_SHARE = 0.40
_ANALYTICS_P95_MS = 40
PARTS = ("me", "favourites", "store", "store-reviews", "hubs", "analytics")

_STATEMENTS = (
    """INSERT INTO profiles (id, email, name, campus_id, role, badges)
    SELECT pg_temp.member(n), 'member' || n || '@example.edu', 'Member ' || n, pg_temp.campus(n %% %(campuses)s),
        'buyer', '{verified_student}' FROM generate_series(0, %(members)s - 1) n""",
    """INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, payment_reference,
        payment_status, payment_channel, expires_at, created_at, updated_at, paid_at, accepted_at, shipped_at,
        delivered_at)
    SELECT pg_temp.delivered(n), pg_temp.member(n::bigint * 7919 %% %(members)s), pg_temp.store(n %% %(stores)s),
        pg_temp.campus(n %% %(stores)s %% %(campuses)s), 'delivered', (n %% 4 + 1) * 250000, 50000, 10000, 0,
        (n %% 4 + 1) * 250000 + 60000, 'delivery', '{"hostel": "Unity Hostel", "roomNumber": "C7"}',
        'community-' || n, 'succeeded', 'card', made, made, made, made, made, made, made
    FROM (SELECT n, now() - n::bigint * %(days)s * 86400 / %(orders)s * interval '1 second' AS made
        FROM generate_series(0, %(orders)s - 1) n) numbers""",
    """INSERT INTO order_items (order_id, position, product_id, title, unit_price_minor, quantity,
        line_total_minor, commission_bps)
    SELECT pg_temp.delivered(n), line, pg_temp.product(n %% %(stores)s + (n / %(stores)s + line) %% 50 * %(stores)s),
        'Scientific calculator', 250000, 1, 250000, 500
    FROM generate_series(0, %(orders)s - 1) n, generate_series(0, n %% 4) line""",
    """INSERT INTO escrows (order_id, status, amount_minor, released_minor)
    SELECT id, 'released', total_minor, total_minor FROM orders WHERE payment_reference LIKE 'community-%%'""",
    """INSERT INTO reviews (id, order_id, vendor_id, author_id, rating, text, status, created_at, updated_at)
    SELECT pg_temp.review(n), o.id, o.vendor_id, o.buyer_id, n * 7 %% 5 + 1,
        'Delivered in time and as described. I would buy here again.', 'visible', o.delivered_at, o.delivered_at
    FROM generate_series(0, %(orders)s - 1, %(reviewed_every)s) n JOIN orders o ON o.id = pg_temp.delivered(n)""",
    """INSERT INTO review_products (review_id, product_id, reviewed_at)
    SELECT DISTINCT r.id, i.product_id, r.created_at FROM reviews r JOIN order_items i ON i.order_id = r.order_id""",
    """UPDATE vendor_profiles v SET rating_sum = c.total, rating_count = c.number, rating_counts = c.counts
    FROM (SELECT vendor_id, sum(rating) AS total, count(*) AS number,
            ARRAY[count(*) FILTER (WHERE rating = 1), count(*) FILTER (WHERE rating = 2),
                count(*) FILTER (WHERE rating = 3), count(*) FILTER (WHERE rating = 4),
                count(*) FILTER (WHERE rating = 5)] AS counts
        FROM reviews GROUP BY vendor_id) c WHERE v.id = c.vendor_id""",
    """INSERT INTO favorites (user_id, product_id, known_price_minor, created_at)
    SELECT pg_temp.member(n), p.id, p.price_minor, now() - f * interval '1 hour'
    FROM generate_series(0, %(members)s - 1, %(favoring_every)s) n, generate_series(0, %(favorites)s - 1) f
        JOIN LATERAL (SELECT id, price_minor FROM products
            WHERE id = pg_temp.product((n::bigint * 31 + f * 97) %% %(products)s)) p ON true""",
    """INSERT INTO hubs (campus_id, name, address, opening_hours, weekly_hours, latitude, longitude)
    SELECT pg_temp.campus(c), 'Hub ' || h, 'Street ' || h, '', %(hours)s::jsonb, 6.5 + h * 0.001, 3.39 + h * 0.001
    FROM generate_series(0, %(campuses)s - 1) c, generate_series(1, %(hubs)s) h""",
)
_HOURS = """[{"day": "monday", "opens": "08:00", "closes": "20:00"},
    {"day": "tuesday", "opens": "08:00", "closes": "20:00"}, {"day": "wednesday", "opens": "08:00", "closes": "20:00"},
    {"day": "thursday", "opens": "08:00", "closes": "20:00"}, {"day": "friday", "opens": "08:00", "closes": "20:00"}]"""


def load(url: str, *, products: int) -> None:
    """Load members with orders, reviews and favourites, and hubs.

    :param url: of the migrated database with the data of ``bench.data``
    :param products: the number of products in the catalog
    """
    values = {
        "members": MEMBERS,
        "orders": ORDERS,
        "campuses": CAMPUSES,
        "stores": STORES,
        "products": products,
        "days": _DAYS,
        "reviewed_every": _REVIEWED_EVERY,
        "favoring_every": _FAVORING_EVERY,
        "favorites": _FAVORITES,
        "hubs": _HUBS,
        "hours": _HOURS,
    }
    load_rows(url, _STATEMENTS, values, seconds=_LOAD_SECONDS)
    last_day = datetime.now(UTC).date()
    database = Database(url, pool_size=1, application_name="bench")
    try:
        roll_up.rebuild(
            database,
            vendor_id=None,
            first_day=last_day - timedelta(days=_DAYS),
            last_day=last_day,
            progress=lambda _days: None,
        )
    finally:
        database.close()


def build_reads(stand: Stand, *, clients: int) -> RecordedReads:
    """Build the reads of profiles, favourites, stores, reviews and hubs, with access tokens of some members.

    :param clients: number of concurrent requests
    """
    # Every reader has favourites.
    readers = [number * _FAVORING_EVERY for number in range(min(_READERS, MEMBERS // _FAVORING_EVERY))]
    tokens = {
        "member": {number: stand.identity.token(row_id("member", number)) for number in readers},
        "merchant": {number: stand.identity.token(row_id("merchant", number)) for number in range(STORES)},
    }

    def headers(name: str, number: int) -> dict[str, str]:
        kind = "merchant" if name == "analytics" else "member" if name in _OWN else None
        return {} if kind is None else {"Authorization": f"Bearer {tokens[kind][number]}"}

    titles = {
        "me": "users/me, any of 100,000",
        "favourites": "30 favourites, any member",
        "store": "a store's profile",
        "store-reviews": "reviews of a store",
        "hubs": "hubs of a campus",
        "analytics": "a year of a store's figures",
    }
    reads = [
        RecordedRead(
            name,
            titles[name],
            Target(share=_SHARE, p95_ms=_ANALYTICS_P95_MS if name == "analytics" else None),
            path=partial(_target, name),
            headers=partial(headers, name),
            varying=partial(_varying, name),
            numbers=partial(_numbers, name, readers),
            recorded_number=readers[0] if name in _OWN else 1,
        )
        for name in PARTS
    ]
    return RecordedReads(stand, reads, clients=clients)


def _numbers(name: str, readers: list[int]) -> Iterator[int]:
    """Generate numbers of readers, stores or campuses."""
    if name == "hubs":
        yield from itertools.cycle(range(CAMPUSES))
    numbers = random.Random(_SEED)
    while True:
        yield numbers.choice(readers) if name in _OWN else numbers.randrange(STORES)


# The parts that a member reads with an access token.
_OWN = frozenset({"me", "favourites"})


def _target(name: str, number: int) -> str:
    """Return the path of a part's request for a member, store or campus."""
    if name == "me":
        return "/api/users/me"
    if name == "favourites":
        return "/api/users/favorites?limit=20"
    if name == "store":
        return f"/api/vendors/profile/{row_id('store', number)}"
    if name == "store-reviews":
        return f"/api/vendors/{row_id('store', number)}/reviews"
    if name == "analytics":
        ends = datetime.now(UTC).date()
        period = urlencode({"from": ends - timedelta(days=365), "to": ends, "interval": "week"})
        return f"/api/vendors/{row_id('store', number)}/analytics?{period}"
    return f"/api/campuses/{row_id('campus', number)}/hubs"


def _varying(name: str, number: int) -> dict[str, str]:
    """Return the ids that differ in the SQL of each request, by the names of the floor's values."""
    if name == "analytics":
        return {"id": row_id("store", number), "owner": row_id("merchant", number)}
    kind = "member" if name in _OWN else "campus" if name == "hubs" else "store"
    return {"id": row_id(kind, number)}
