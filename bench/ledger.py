"""The parts ``statement*``: the statement of a store with a million ledger entries."""

import itertools
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

import psycopg2

from bench.data import STORES, row_id
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of
from marketplace.infra.db import Database
from marketplace.ledger.accounts import vendor_payable
from marketplace.ledger.queries import INVARIANTS, find_violations

PARTS = ("statement", "statement-kind", "statement-period")
ENTRIES = 1_000_000
_TRANSACTIONS = "/api/transactions"
# The last store receives no releases, so its balance does not change during the measurement.
_OWNER = STORES - 1
OWNER_ID = UUID(row_id("store", _OWNER))
# Other accounts have statements of the usual length, so that the index holds more than the large account.
_OTHERS = 150
_ENTRIES_OF_OTHERS = 1_000
# Every 5,000th transaction is a payout of the releases before it. All others are releases.
_RARE = 5_000
_EACH_MINOR = 1_000
_APART_SECONDS = 60
_BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
_WINDOW = timedelta(days=7)
_SEED = 11
# A time that occurs nowhere else in the recorded SQL.
_RECORDED = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
_LOAD_SECONDS = 300

_OPEN = """INSERT INTO ledger_accounts (id, kind, owner_id, normal_side, balance_minor)
    VALUES (%(account)s, 'vendor_payable', %(owner)s, 'credit', 0)
    ON CONFLICT (kind, owner_id) DO NOTHING"""
_MOVE = """
    CREATE TEMPORARY TABLE moved ON COMMIT DROP AS
    SELECT n, uuidv7() AS id, n %% %(rare)s = 0 AS payout,
        CASE WHEN n %% %(rare)s = 0 THEN (%(rare)s - 1) * %(each)s ELSE %(each)s END::bigint AS minor,
        CAST(%(began)s AS timestamptz) + n * %(apart)s * interval '1 second' AS at
    FROM generate_series(1, %(entries)s) n;
    INSERT INTO ledger_transactions (id, kind, source, description, created_at)
    SELECT id, CASE WHEN payout THEN 'payout' ELSE 'release' END, 'bench:' || %(account)s || ':' || n,
        CASE WHEN payout THEN 'Payout' ELSE 'Order CM-' || upper(substr(md5(n::text), 1, 8)) || ' delivered' END, at
    FROM moved ORDER BY n;
    INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor, balance_after_minor,
        order_id, created_at)
    SELECT m.id, CASE WHEN payout THEN 'payout' ELSE 'release' END,
        CASE WHEN s.owned THEN CAST(%(account)s AS uuid) ELSE other.id END,
        CASE WHEN s.owned = payout THEN 'debit' ELSE 'credit' END, minor,
        CASE WHEN s.owned THEN n %% %(rare)s * %(each)s::bigint END,
        CASE WHEN NOT payout THEN md5('order ' || n)::uuid END, at
    FROM moved m CROSS JOIN (VALUES (false), (true)) s (owned)
        JOIN ledger_accounts other ON other.owner_id IS NULL
            AND other.kind = CASE WHEN payout THEN 'payouts_in_transit' ELSE 'escrow' END
    ORDER BY n, s.owned;
    -- The payment into escrow that covers all releases.
    INSERT INTO ledger_transactions (id, kind, source, description, created_at)
    VALUES (%(paid)s, 'payment', 'bench:' || %(account)s, 'Payment received', %(began)s);
    INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor, created_at)
    SELECT %(paid)s, 'payment', a.id, a.normal_side, (SELECT sum(minor) FROM moved WHERE NOT payout), %(began)s
    FROM ledger_accounts a WHERE a.kind IN ('gateway_clearing', 'escrow');
    UPDATE ledger_accounts SET balance_minor = %(entries)s %% %(rare)s * %(each)s WHERE id = %(account)s
"""


class BrokenBooksError(Exception):
    """The loaded ledger violates an invariant, so measurements would be meaningless."""


def load(url: str, *, entries: int = ENTRIES, others: int = _OTHERS) -> None:
    """Load a long statement and many usual ones, then check the ledger's invariants.

    Foreign keys and triggers are disabled on this connection, because a million checks would take minutes.
    The ledger's invariants replace these checks afterwards.

    :param url: of the migrated database
    :param entries: length of the long statement
    :param others: number of accounts of the usual length
    :raises BrokenBooksError: an invariant does not hold
    """
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = '{_LOAD_SECONDS}s'")
            cursor.execute("SET session_replication_role = replica")
            for number in range(_OWNER - others, _OWNER + 1):
                store = UUID(row_id("store", number))
                values = {
                    "account": str(vendor_payable(store).id),
                    "owner": str(store),
                    "paid": str(UUID(int=vendor_payable(store).id.int ^ 1)),
                    "entries": entries if number == _OWNER else _ENTRIES_OF_OTHERS,
                    "rare": _RARE,
                    "each": _EACH_MINOR,
                    "began": _BEGAN,
                    "apart": _APART_SECONDS,
                }
                cursor.execute(_OPEN, values)
                cursor.execute(_MOVE, values)
                connection.commit()
    finally:
        connection.close()
    database = Database(url, pool_size=1, application_name="bench")
    try:
        with database.reading() as session:
            broken = find_violations(session, INVARIANTS)
    finally:
        database.close()
    if broken:
        raise BrokenBooksError(f"the ledger violates an invariant: {broken[0]}")


class Statements:
    """A builder of the parts that read the long statement's first page, unfiltered, by kind and by period."""

    def __init__(self, stand: Stand, *, clients: int) -> None:
        """Create the reader's access token.

        :param clients: number of concurrent requests
        """
        self._stand = stand
        self._clients = clients
        self._headers = {"Authorization": f"Bearer {stand.identity.token(row_id('merchant', _OWNER))}"}

    def recorded_calls(self) -> dict[str, list[tuple[str, str, dict[str, str], str]]]:
        """Return the calls that record the floors' SQL, two for each floor."""
        targets = {
            "statement": _TRANSACTIONS,
            "statement-kind": _of_kind("payout"),
            "statement-period": _of_period(_RECORDED),
        }
        return {name: [("GET", target, self._headers, "")] * 2 for name, target in targets.items()}

    def floors(self, recorded: dict[str, Recorded]) -> dict[str, Floor]:
        """Build the floors from the recorded SQL."""
        period = {_written(_RECORDED): "starts", _written(_RECORDED + _WINDOW): "ends"}
        return {
            "statement": floor_of(recorded["statement"], {}),
            "statement-kind": floor_of(recorded["statement-kind"], {"'payout'": "kind"}),
            "statement-period": floor_of(recorded["statement-period"], period),
        }

    def parts(self) -> list[Part]:
        """Build all parts."""
        return [
            self._part(
                "statement",
                "statement of 1,000,000 entries",
                lambda: itertools.repeat(_TRANSACTIONS),
                lambda: itertools.repeat(""),
            ),
            self._part(
                "statement-kind",
                "statement, by kind",
                lambda: (_of_kind(kind) for kind in itertools.cycle(("payout", "release"))),
                lambda: (f"&kind='{kind}'" for kind in itertools.cycle(("payout", "release"))),
            ),
            self._part(
                "statement-period",
                "statement, any week",
                lambda: map(_of_period, _weeks()),
                lambda: (f"&starts={_written(week)}&ends={_written(week + _WINDOW)}" for week in _weeks()),
            ),
        ]

    def _part(
        self,
        name: str,
        title: str,
        targets: Callable[[], Iterator[str]],
        values: Callable[[], Iterator[str]],
    ) -> Part:
        def figure() -> Iterator[Call]:
            for target in targets():
                yield Call("", request("GET", target, headers=self._headers))

        def bare() -> Iterator[Call]:
            for value in values():
                yield Call("", request("GET", f"/statements?{name}{value}"))

        return Part(
            name,
            self._side(title, "web", figure),
            (self._side("the same SQL, bare HTTP", "floors", bare),),
            Target(p95_ms=20),
        )

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)


def _of_kind(kind: str) -> str:
    return f"{_TRANSACTIONS}?{urlencode({'kind': kind})}"


def _of_period(starts: datetime) -> str:
    period = {"from": starts.isoformat(), "to": (starts + _WINDOW).isoformat()}
    return f"{_TRANSACTIONS}?{urlencode(period)}"


def _weeks() -> Iterator[datetime]:
    numbers = random.Random(_SEED)
    while True:
        yield _BEGAN + timedelta(seconds=numbers.randrange(ENTRIES * _APART_SECONDS))


def _written(moment: datetime) -> str:
    """Format a time as the database driver writes it into SQL."""
    return f"'{moment.isoformat()}'"
