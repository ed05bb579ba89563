"""Malformed signed webhooks: each delivery is acknowledged and ends processed, ignored or dead, never lost."""

import json
import random
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import example, given, settings, strategies as st

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from marketplace.services import Services
from marketplace.webhooks import inbox, queries
from tests.support import gateway_events
from tests.support.checked_client import checked_app
from tests.support.depth import case_count
from tests.support.gateway import GATEWAY_KEY, sign
from tests.support.messaging import MESSAGES, message, status
from tests.support.probes import changed
from tests.support.purchases import NOW, assert_ledger_is_consistent

EXAMPLES = case_count(40, deep=500)
FINAL_STATUSES = {"processed", "duplicate", "ignored", "dead"}
# Valid JSON values that a database or a program may fail on.
ODD = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, -0.0, 0.1),
    *("", " ", "\0", "a\0b", "\ufffe", "\u202e", "x" * 700, "1", "2348031234567", "'; --", "\x1b[31m"),
    *([], {}, [[]], [None], [{}], {"id": None}, {"": ""}, {"\0": "\0"}, {"__proto__": {}}),
)
# Bytes that no JSON library would write.
RAW = (
    b"1e999", b"-1e999", b"9" * 5_000, b"0." + b"9" * 5_000, b"NaN", b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"',
    b'"\\\\u0000"', b"[" * 300 + b"]" * 300, b'{"a":' * 300 + b"1" + b"}" * 300, b"[" * 100_000, b'"\xff"', b"",
    b"00", b"'x'", b"{", b'{"a":1,"a":2}',
)  # fmt: skip

values = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the path of every field of a value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += paths_of(inner, (*path, key))
    return found


def with_field_replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of a value with the field at a path replaced."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return value | {key: with_field_replaced(value[key], tuple(rest), new)}
    return [
        with_field_replaced(one, tuple(rest), new) if number == key else one
        for number, one in enumerate(value)
    ]


@st.composite
def malformed(draw: st.DrawFn, bodies: st.SearchStrategy[dict[str, Any]]) -> bytes:
    """Replace a field of a valid body by an unexpected value or malformed bytes."""
    body = draw(bodies)
    path = draw(st.sampled_from(paths_of(body)))
    if draw(st.booleans()):
        return json.dumps(with_field_replaced(body, path, draw(st.sampled_from(ODD) | values))).encode()
    marked = json.dumps(with_field_replaced(body, path, "MARKER")).encode()
    return marked.replace(b'"MARKER"', draw(st.sampled_from(RAW)))


def event_body(event: str) -> dict[str, Any]:
    data = gateway_events.data_of(
        event, reference=f"checkout-{0:032x}", charge_id=gateway_events.new_id(), amount_minor=5
    )
    return {"event": event, "data": data}


def envelope_body(units: list[dict[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {"messaging_product": "whatsapp", "contacts": []}
    value["messages"] = [unit for unit in units if "type" in unit]
    value["statuses"] = [unit for unit in units if "type" not in unit]
    return {"object": "x", "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]}


gateway_bodies = st.sampled_from(gateway_events.ALL).map(event_body)
units = st.sampled_from(sorted(MESSAGES)).map(message) | st.sampled_from(
    ["sent", "delivered", "read", "failed", "deleted"]
).map(lambda word: status("wamid.x", word, errors=[{"code": 1}]))
messaging_bodies = st.lists(units, max_size=3).map(envelope_body)


class WebhookDelivery:
    """Delivers a body over HTTP and processes the event to a final status."""

    def __init__(self, services: Services, client: FlaskClient, path: str) -> None:
        self.database: Database = services.database
        self.client = client
        self.path = path

    def deliver(self, body: bytes) -> None:
        """Deliver a body and check the acknowledgement, the stored bytes and the final status."""
        answer = self.client.post(self.path, data=body, headers={"x-gateway-signature": sign(body)})
        assert (answer.status_code, answer.data) == (200, b'{"received":true}')
        with self.database.reading() as session:
            rows = session.connection().exec_driver_sql(
                "SELECT id FROM webhook_inbox WHERE status = 'received' ORDER BY id"
            )
            waiting = [row.id for row in rows]
            stored = [queries.fetch_event(session, inbox_id=inbox_id).body for inbox_id in waiting]
        assert stored == [body]
        while waiting:
            self._process_to_final_status(waiting.pop())
            with self.database.reading() as session:
                rows = session.connection().exec_driver_sql(
                    "SELECT id FROM webhook_inbox WHERE status = 'received' ORDER BY id"
                )
                waiting = [row.id for row in rows]

    def _process_to_final_status(self, inbox_id: Any) -> None:
        now = NOW
        for _ in range(7):
            result = inbox.process_event(
                self.database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=random.random
            )
            assert result is not None
            if result.due_at is None:
                break
            now = result.due_at
        assert result.status in FINAL_STATUSES
        with self.database.reading() as session:
            shown = queries.fetch_event(session, inbox_id=inbox_id)
            assert shown.status == result.status
            # An expected error starts in lower case; an unexpected error starts with the class name.
            assert shown.last_error is None or not shown.last_error[0].isupper(), shown.last_error


@pytest.fixture(scope="module")
def client(services: Services, committed_database: Database) -> FlaskClient:
    """A client of the application on a separate database."""
    own = changed(
        services, database=committed_database, gateway_secret_key=GATEWAY_KEY, messaging_app_secret=""
    )
    return checked_app(own, AREAS).test_client()


@pytest.fixture(scope="module")
def separate_services(services: Services, committed_database: Database) -> Services:
    """Services on the separate database with no open inbox rows of other tests."""
    with committed_database.transaction() as session:
        session.connection().exec_driver_sql(
            "UPDATE webhook_inbox SET status = 'ignored' WHERE status IN ('received', 'retrying')"
        )
    return changed(services, database=committed_database)


@settings(max_examples=EXAMPLES)
@given(malformed(gateway_bodies))
@example(b"[" * 500_000)
@example(b'{"event":"charge.success","data":' * 400)
@example(b'{"event":"x","data":{"id":1,"deep":' + b"[" * 300 + b"]" * 300 + b"}}")
@example(b'{"event":"\\u0000","data":{"id":"\\u0000"}}')
@example(b'{"event":"charge.success","data":{"id":1e20,"reference":"r","status":"success","amount":1}}')
def test_gateway_event_with_any_content_reaches_a_final_status(
    client: FlaskClient, separate_services: Services, body: bytes
) -> None:
    WebhookDelivery(separate_services, client, "/api/payments/webhook").deliver(body)

    with separate_services.database.reading() as session:
        assert_ledger_is_consistent(session)


@settings(max_examples=EXAMPLES)
@given(malformed(messaging_bodies))
@example(b"[" * 500_000)
@example(b'{"entry":[{"changes":[{"value":{"messages":[[],1,null,"x",{}],"statuses":[{}]}}]}]}')
@example(b'{"entry":[null,1,[],{"changes":null},{"changes":[null,{"value":[]}]}]}')
@example(b'{"entry":[{"changes":[{"value":{"messages":[{"id":"\\u0000","from":"\\u0000"}]}}]}]}')
def test_envelope_with_any_content_reaches_a_final_status(
    client: FlaskClient, separate_services: Services, body: bytes
) -> None:
    WebhookDelivery(separate_services, client, "/api/whatsapp/webhook").deliver(body)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300) | values.map(lambda value: json.dumps(value).encode()))
@pytest.mark.parametrize("path", ["/api/payments/webhook", "/api/whatsapp/webhook"])
def test_any_bytes_reach_a_final_status(
    client: FlaskClient, separate_services: Services, path: str, body: bytes
) -> None:
    WebhookDelivery(separate_services, client, path).deliver(body)
