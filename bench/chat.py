"""The parts of the chat and of the feed: 100,000 conversations, 5,000,000 messages and 1,000,000 notifications."""

import random
from collections.abc import Iterator
from functools import partial

from bench.data import STORES, row_id
from bench.figures import Target
from bench.recorded_reads import RecordedRead, RecordedReads, load_rows
from bench.stand import Stand

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

    :param url: of the migrated database with the data of ``bench.data``
    """
    values = {
        "people": PEOPLE,
        "each": _EACH,
        "conversations": CONVERSATIONS,
        "messages": MESSAGES_EACH,
        "notifications": _NOTIFICATIONS_EACH,
        "stores": STORES,
    }
    load_rows(url, _STATEMENTS, values, seconds=_LOAD_SECONDS)


def build_reads(stand: Stand, *, clients: int) -> RecordedReads:
    """Build the reads of conversations, messages and notifications, with access tokens of some people.

    :param clients: number of concurrent requests
    """
    headers = [
        {"Authorization": f"Bearer {stand.identity.token(row_id('talker', number))}"}
        for number in range(_READERS)
    ]
    titles = {
        "conversations": "a person's conversations",
        "messages": "20 messages of a conversation",
        "feed": "20 notifications of a person",
    }
    reads = [
        RecordedRead(
            name,
            titles[name],
            _TARGET,
            path=partial(_target, name),
            headers=headers.__getitem__,
            varying=partial(_varying, name),
            numbers=_numbers,
        )
        for name in PARTS
    ]
    return RecordedReads(stand, reads, clients=clients)


def _numbers() -> Iterator[int]:
    """Generate numbers of people."""
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
