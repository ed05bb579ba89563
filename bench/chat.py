"""The parts of the chat and of the feed: 100,000 conversations, 5,000,000 messages and 1,000,000 notifications."""

import random
from collections.abc import Callable, Iterator

import psycopg2

from bench import data
from bench.data import STORES, row_id
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of

CONVERSATIONS = 100_000
MESSAGES_EACH = 50
# Each person has five conversations with different stores, and fifty notifications.
PEOPLE = 20_000
_EACH = CONVERSATIONS // PEOPLE
_NOTIFICATIONS_EACH = 50
# People with an access token.
_READERS = 2_000
_SEED = 17
_LOAD_SECONDS = 900
_TARGET = Target(share=0.40, p95_ms=25)
PARTS = ("conversations", "messages", "feed")

_STATEMENTS = (
    """INSERT INTO profiles (id, email, name, campus_id, role)
    SELECT pg_temp.talker(n), 'talker' || n || '@example.edu', 'Talker ' || n, pg_temp.campus(0), 'buyer'
    FROM generate_series(0, %(people)s - 1) n""",
    """INSERT INTO conversations (id, buyer_id, seller_id, vendor_id, message_count, last_message_id,
        buyer_read_number, seller_read_number, buyer_unread, seller_unread, created_at)
    SELECT pg_temp.conversation(n), pg_temp.talker(n / %(each)s), v.user_id, v.id, %(messages)s,
        pg_temp.chat_message((%(messages)s - 1)::bigint * %(conversations)s + n), %(messages)s - 2, %(messages)s,
        1, 0, now() - interval '60 days'
    FROM (SELECT n, (n / %(each)s * 13 + n %% %(each)s * 31) %% %(stores)s AS store
        FROM generate_series(0, %(conversations)s - 1) n) numbers
        JOIN vendor_profiles v ON v.id = pg_temp.store(store)""",
    """INSERT INTO messages (id, conversation_id, number, sender, body, created_at)
    SELECT pg_temp.chat_message(m::bigint * %(conversations)s + n), pg_temp.conversation(n), m + 1,
        CASE m %% 2 WHEN 0 THEN 'buyer' ELSE 'vendor' END, 'Is the calculator still available? I can come at 4 pm.',
        now() - (%(messages)s - m) * interval '1 day'
    FROM generate_series(0, %(messages)s - 1) m, generate_series(0, %(conversations)s - 1) n""",
    """INSERT INTO notifications (id, user_id, type, title, body, link, cause, created_at, read_at)
    SELECT pg_temp.notification(m::bigint * %(people)s + n), pg_temp.talker(n), 'wallet_credited', 'Refund',
        'We added the amount of your refund to your wallet.', '/wallet', 'bench:' || m,
        now() - (%(notifications)s - m) * interval '1 day',
        CASE WHEN m < %(notifications)s - 5 THEN now() END
    FROM generate_series(0, %(notifications)s - 1) m, generate_series(0, %(people)s - 1) n""",
)


def load(url: str) -> None:
    """Load people, conversations, messages and notifications.

    Foreign keys and triggers are disabled on this connection, because millions of checks would take minutes.

    :param url: of the migrated database with the data of ``bench.data``
    """
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = '{_LOAD_SECONDS}s'")
            cursor.execute("SET session_replication_role = replica")
            data.create_id_functions(cursor)
            values = {
                "people": PEOPLE,
                "each": _EACH,
                "conversations": CONVERSATIONS,
                "messages": MESSAGES_EACH,
                "notifications": _NOTIFICATIONS_EACH,
                "stores": STORES,
            }
            for statement in _STATEMENTS:
                cursor.execute(statement, values)
    finally:
        connection.close()


class Chat:
    """A builder of the parts that read conversations, messages and notifications."""

    def __init__(self, stand: Stand, *, clients: int) -> None:
        """Create the access tokens of some people.

        :param clients: number of concurrent requests
        """
        self._stand = stand
        self._clients = clients
        self._headers = {
            number: {"Authorization": f"Bearer {stand.identity.token(row_id('talker', number))}"}
            for number in range(_READERS)
        }

    def recorded_calls(self) -> dict[str, list[tuple[str, str, dict[str, str], str]]]:
        """Return the calls that record the floors' SQL, two for each floor."""
        return {name: [("GET", _target(name, 0), self._headers[0], "")] * 2 for name in PARTS}

    def floors(self, recorded: dict[str, Recorded]) -> dict[str, Floor]:
        """Build the floors from the recorded SQL."""
        return {
            name: floor_of(recorded[name], {value: key for key, value in _varying(name, 0).items()})
            for name in PARTS
        }

    def parts(self) -> list[Part]:
        """Build all parts."""
        titles = {
            "conversations": "a person's conversations",
            "messages": "20 messages of a conversation",
            "feed": "20 notifications of a person",
        }
        return [self._part(name, titles[name]) for name in PARTS]

    def _part(self, name: str, title: str) -> Part:
        def figure() -> Iterator[Call]:
            for number in _numbers():
                yield Call("", request("GET", _target(name, number), headers=self._headers[number]))

        def bare() -> Iterator[Call]:
            for number in _numbers():
                values = "".join(f"&{key}={value}" for key, value in _varying(name, number).items())
                yield Call("", request("GET", f"/statements?{name}{values}"))

        floor = self._side("the same SQL, bare HTTP", "floors", bare)
        return Part(name, self._side(title, "web", figure), (floor,), _TARGET)

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)


def _numbers() -> Iterator[int]:
    """Generate numbers of people. Figure and floor get the same numbers."""
    numbers = random.Random(_SEED)
    while True:
        yield numbers.randrange(_READERS)


def _target(name: str, number: int) -> str:
    """Return the path of a part's request for a person."""
    if name == "conversations":
        return "/api/conversations?limit=20"
    if name == "messages":
        return f"/api/conversations/{row_id('conversation', number * _EACH)}/messages?limit=20"
    return "/api/notifications?limit=20"


def _varying(name: str, number: int) -> dict[str, str]:
    """Return the ids that differ in the SQL of each request, by the names of the floor's values."""
    person = {"id": row_id("talker", number)}
    return person | {"conversation": row_id("conversation", number * _EACH)} if name == "messages" else person
