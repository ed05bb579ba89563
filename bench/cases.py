"""The parts of the ticket inbox and of disputes, with 200,000 tickets and 50,000 disputes."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from bench.data import STORES, row_id
from bench.figures import Target
from bench.recorded_reads import RecordedRead, RecordedReads, load_rows
from bench.stand import Stand

TICKETS = 200_000
DISPUTES = 50_000
HELPERS = 20
CLAIMANTS = 2_000
_MESSAGES_EACH = 4
# Every tenth ticket waits for an answer, and every fifth dispute for a ruling.
_WAITING_EVERY, _UNRESOLVED_EVERY = 10, 5
_SEED = 19
_LOAD_SECONDS = 600
_TARGET = Target(share=0.40, p95_ms=25)
PARTS = ("inbox", "ticket", "own-disputes", "case", "case-staff")

_STATEMENTS = (
    """INSERT INTO profiles (id, email, name, campus_id, role, staff_role)
    SELECT pg_temp.helper(n), 'helper' || n || '@example.edu', 'Helper ' || n, pg_temp.campus(0), 'staff', 'support'
    FROM generate_series(0, %(helpers)s - 1) n""",
    """INSERT INTO profiles (id, email, name, campus_id, role)
    SELECT pg_temp.claimant(n), 'claimant' || n || '@example.edu', 'Claimant ' || n, pg_temp.campus(0), 'buyer'
    FROM generate_series(0, %(claimants)s - 1) n""",
    """INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, payment_reference,
        payment_status, payment_channel, expires_at, created_at, updated_at, paid_at, accepted_at, shipped_at,
        disputed_at)
    SELECT pg_temp.claimed(n), pg_temp.claimant(n %% %(claimants)s), pg_temp.store(n %% %(stores)s),
        pg_temp.campus(0), CASE n %% %(unresolved_every)s WHEN 0 THEN 'disputed' ELSE 'delivered' END, 250000, 50000,
        10000, 0, 310000, 'delivery', '{"hostel": "Unity Hostel"}', 'claimed-' || n, 'succeeded', 'card', made, made,
        made, made, made, made, made
    FROM (SELECT n, now() - n * interval '10 minutes' AS made FROM generate_series(0, %(disputes)s - 1) n) numbers""",
    """INSERT INTO support_tickets (id, creator_id, order_id, subject, category, severity, status, assignee_id,
        message_count, due_at, response_due_at, resolution_due_at, resolved_at, closed_at, created_at, updated_at)
    SELECT pg_temp.ticket(n), pg_temp.claimant(n %% %(claimants)s), pg_temp.claimed(n %% %(disputes)s),
        'My order has not arrived', CASE n %% 2 WHEN 0 THEN 'delivery' ELSE 'payment' END, 'SEV-3',
        CASE n %% %(waiting_every)s WHEN 0 THEN 'pending_staff' ELSE 'closed' END,
        pg_temp.helper(n / %(waiting_every)s %% %(helpers)s), %(messages)s,
        CASE n %% %(waiting_every)s WHEN 0 THEN made END, made, made,
        CASE n %% %(waiting_every)s WHEN 0 THEN NULL ELSE made END,
        CASE n %% %(waiting_every)s WHEN 0 THEN NULL ELSE made END, made, made
    FROM (SELECT n, now() - n * interval '3 minutes' AS made FROM generate_series(0, %(tickets)s - 1) n) numbers""",
    """INSERT INTO support_ticket_messages (ticket_id, number, author, author_id, is_internal, body, created_at)
    SELECT pg_temp.ticket(n), m, CASE m %% 2 WHEN 1 THEN 'user' ELSE 'staff' END,
        CASE m %% 2 WHEN 1 THEN pg_temp.claimant(n %% %(claimants)s) ELSE pg_temp.helper(0) END, false,
        'The hub does not have it. The vendor does not answer.', now() - n * interval '3 minutes'
    FROM generate_series(0, %(tickets)s - 1) n, generate_series(1, %(messages)s) m""",
    """INSERT INTO disputes (id, order_id, buyer_id, vendor_user_id, opened_by, order_status, reason, description,
        desired_outcome, status, response_due_at, finding_due_at, ruling_due_at, response, responded_at, buyer_minor,
        vendor_minor, rationale, resolved_at, created_at, updated_at)
    SELECT pg_temp.dispute(n), o.id, o.buyer_id, v.user_id, 'buyer', 'shipped', 'not_received',
        'It was marked as shipped. It never came.', 'refund',
        CASE n %% %(unresolved_every)s WHEN 0 THEN 'under_review' ELSE 'resolved_vendor' END, o.created_at,
        o.created_at, o.created_at, 'I handed it to the hub.', o.created_at,
        CASE n %% %(unresolved_every)s WHEN 0 THEN NULL ELSE 0 END,
        CASE n %% %(unresolved_every)s WHEN 0 THEN NULL ELSE o.total_minor END,
        CASE n %% %(unresolved_every)s WHEN 0 THEN NULL ELSE 'The receipt of the hub shows the parcel.' END,
        CASE n %% %(unresolved_every)s WHEN 0 THEN NULL ELSE o.created_at END, o.created_at, o.created_at
    FROM generate_series(0, %(disputes)s - 1) n JOIN orders o ON o.id = pg_temp.claimed(n)
        JOIN vendor_profiles v ON v.id = o.vendor_id""",
    """INSERT INTO dispute_events (dispute_id, event, actor, actor_id, note, at)
    SELECT pg_temp.dispute(n), e, 'buyer', pg_temp.claimant(n %% %(claimants)s), 'not_received', now()
    FROM generate_series(0, %(disputes)s - 1) n, unnest(ARRAY['opened', 'responded', 'finding', 'ruled']) e""",
    """INSERT INTO dispute_offers (dispute_id, offered_by, buyer_minor, note, status, expires_at, decided_at)
    SELECT pg_temp.dispute(n), 'vendor', 100000, 'Let us share it.', 'declined', now(), now()
    FROM generate_series(0, %(disputes)s - 1) n""",
)


def load(url: str) -> None:
    """Load staff, claimants with disputed orders, tickets with messages, and disputes.

    :param url: of the migrated database with the data of ``bench.data``
    """
    values = {
        "helpers": HELPERS,
        "claimants": CLAIMANTS,
        "tickets": TICKETS,
        "disputes": DISPUTES,
        "stores": STORES,
        "messages": _MESSAGES_EACH,
        "waiting_every": _WAITING_EVERY,
        "unresolved_every": _UNRESOLVED_EVERY,
    }
    load_rows(url, _STATEMENTS, values, seconds=_LOAD_SECONDS)


def build_reads(stand: Stand, *, clients: int) -> RecordedReads:
    """Build the reads of the inbox, of tickets and of disputes, with access tokens of staff and claimants.

    :param clients: number of concurrent requests
    """

    def headers(kind: str, number: int) -> dict[str, str]:
        return tokens[kind][number % len(tokens[kind])]

    tokens = {
        kind: [
            {"Authorization": f"Bearer {stand.identity.token(row_id(kind, number))}"}
            for number in range(count)
        ]
        for kind, count in (("helper", HELPERS), ("claimant", CLAIMANTS))
    }

    def read(
        name: str,
        title: str,
        path: Callable[[int], str],
        *,
        reader: str,
        varying: Callable[[int], dict[str, str]],
        count: int,
    ) -> RecordedRead:
        return RecordedRead(
            name,
            title,
            _TARGET,
            path=path,
            headers=partial(headers, reader),
            varying=varying,
            numbers=partial(_numbers, count),
        )

    def helper(number: int) -> dict[str, str]:
        return {"id": row_id("helper", number % HELPERS)}

    def claimant(number: int) -> dict[str, str]:
        return {"id": row_id("claimant", number % CLAIMANTS)}

    reads = [
        read(
            "inbox",
            "20 waiting tickets of an officer",
            lambda _number: "/api/admin/support?assignee=me&limit=20",
            reader="helper",
            varying=helper,
            count=HELPERS,
        ),
        read(
            "ticket",
            "a ticket, any of 200,000",
            lambda number: f"/api/admin/support/{row_id('ticket', number)}",
            reader="helper",
            varying=lambda number: helper(number) | {"ticket": row_id("ticket", number)},
            count=TICKETS,
        ),
        read(
            "own-disputes",
            "20 disputes of a person",
            lambda _number: "/api/disputes?limit=20",
            reader="claimant",
            varying=claimant,
            count=CLAIMANTS,
        ),
        read(
            "case",
            "a dispute, any of 50,000",
            lambda number: f"/api/disputes/{row_id('dispute', number)}",
            reader="claimant",
            varying=lambda number: claimant(number) | {"dispute": row_id("dispute", number)},
            count=DISPUTES,
        ),
        read(
            "case-staff",
            "a dispute with both histories",
            lambda number: f"/api/disputes/{row_id('dispute', number)}",
            reader="helper",
            varying=lambda number: (
                helper(number)
                | {"dispute": row_id("dispute", number), "buyer": row_id("claimant", number % CLAIMANTS)}
            ),
            count=DISPUTES,
        ),
    ]
    return RecordedReads(stand, reads, clients=clients)


def _numbers(count: int) -> Iterator[int]:
    """Generate numbers below a count."""
    numbers = random.Random(_SEED)
    while True:
        yield numbers.randrange(count)
