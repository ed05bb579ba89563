"""The parts of people and stores, with 100,000 members and 1,000,000 lines of delivered orders."""

import itertools
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import psycopg2

from bench import data
from bench.data import CAMPUSES, STORES, row_id
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of
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

    Foreign keys and triggers are disabled on this connection, because millions of checks would take minutes.

    :param url: of the migrated database with the data of ``bench.data``
    :param products: the number of products in the catalog
    """
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = '{_LOAD_SECONDS}s'")
            cursor.execute("SET session_replication_role = replica")
            data.create_id_functions(cursor)
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
            for statement in _STATEMENTS:
                cursor.execute(statement, values)
    finally:
        connection.close()
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


class Community:
    """A builder of the parts that read profiles, favourites, stores, reviews and hubs."""

    def __init__(self, stand: Stand, *, clients: int) -> None:
        """Create the access tokens of some members.

        :param clients: number of concurrent requests
        """
        self._stand = stand
        self._clients = clients
        # Every reader has favourites.
        self._readers = [
            number * _FAVORING_EVERY for number in range(min(_READERS, MEMBERS // _FAVORING_EVERY))
        ]
        self._headers = {
            number: {"Authorization": f"Bearer {stand.identity.token(row_id('member', number))}"}
            for number in self._readers
        }
        self._owners = {
            number: {"Authorization": f"Bearer {stand.identity.token(row_id('merchant', number))}"}
            for number in range(STORES)
        }

    def recorded_calls(self) -> dict[str, list[tuple[str, str, dict[str, str], str]]]:
        """Return the calls that record the floors' SQL, two for each floor."""
        return {
            name: [("GET", _target(name, number), self._headers_of(name, number), "")] * 2
            for name, number in ((name, self._recorded_number(name)) for name in PARTS)
        }

    def floors(self, recorded: dict[str, Recorded]) -> dict[str, Floor]:
        """Build the floors from the recorded SQL."""
        return {
            name: floor_of(
                recorded[name],
                {value: key for key, value in _varying(name, self._recorded_number(name)).items()},
            )
            for name in PARTS
        }

    def _recorded_number(self, name: str) -> int:
        return self._readers[0] if name in _OWN else 1

    def _headers_of(self, name: str, number: int) -> dict[str, str]:
        if name == "analytics":
            return self._owners[number]
        return self._headers[number] if name in _OWN else {}

    def parts(self) -> list[Part]:
        """Build all parts."""
        titles = {
            "me": "users/me, any of 100,000",
            "favourites": "30 favourites, any member",
            "store": "a store's profile",
            "store-reviews": "reviews of a store",
            "hubs": "hubs of a campus",
            "analytics": "a year of a store's figures",
        }
        return [self._part(name, titles[name]) for name in PARTS]

    def _part(self, name: str, title: str) -> Part:
        def figure() -> Iterator[Call]:
            for number in self._numbers(name):
                headers = self._headers_of(name, number)
                yield Call("", request("GET", _target(name, number), headers=headers))

        def bare() -> Iterator[Call]:
            for number in self._numbers(name):
                values = "".join(f"&{key}={value}" for key, value in _varying(name, number).items())
                yield Call("", request("GET", f"/statements?{name}{values}"))

        return Part(
            name,
            self._side(title, "web", figure),
            (self._side("the same SQL, bare HTTP", "floors", bare),),
            Target(share=_SHARE, p95_ms=_ANALYTICS_P95_MS if name == "analytics" else None),
        )

    def _numbers(self, name: str) -> Iterator[int]:
        """Generate numbers of readers, stores or campuses. Figure and floor get the same numbers."""
        if name == "hubs":
            yield from itertools.cycle(range(CAMPUSES))
        numbers = random.Random(_SEED)
        while True:
            yield numbers.choice(self._readers) if name in _OWN else numbers.randrange(STORES)

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)


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
