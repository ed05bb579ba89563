"""Hostile input in every field of every route: refused without a server error."""

import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import orjson
import pytest
from flask.testing import FlaskClient
from marshmallow import Schema, fields
from werkzeug.datastructures import MultiDict

from blueprints.areas import contracts
from blueprints.http.contract import Contract, TokenPolicy
from marketplace.identity.permissions import MANAGE_COMPLIANCE
from tests.support.depth import sample
from tests.support.function_calls import KEYED
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, listing_body

PARAMETERS = (
    "\0",
    "a\0b",
    "\x07",
    "\x7f",
    "\u202e",
    "\ufffd",
    "9" * 18,
    "9" * 19,
    "-" + "9" * 400,
    "1e400",
    "0x10",
    "1_000",
    " 1",
    "NaN",
    "",
    "%",
    "'; --",
    "../../etc/passwd",
    "x" * 5_000,
    "true",
    "[]",
    "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "٣",
    "½",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    "\0",
    "a\0b",
    "\x1b[31m",
    "\ufffe",
    "x" * 200_000,
    0,
    -1,
    2**63,
    2**64 - 1,
    -(2**63),
    1e308,
    -0.0,
    0.1,
    "1",
    "\uff19",
    [],
    [[]],
    [None],
    ["\0"],
    [{}] * 3,
    {},
    {"\0": "\0"},
    {"$ne": None},
    {"__proto__": {"x": 1}},
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999-12:00",
    "javascript:alert(1)",
    "http://[::1",
    "00000000-0000-0000-0000-000000000000",
)
# Raw JSON, since no encoder produces these values.
RAW_VALUES = (
    b"NaN",
    b"1e999",
    b"123456789012345678901234567890",
    b'"\\ud800"',
    b'"\xff"',
    b"[" * 100 + b"]" * 100,
)


ROUTES_WITH_REQUIRED_FIELDS = {
    "catalog.create_product",
    "cart.synchronise_cart",
    "orders.place_order",
    "users.add_address",
}


def route_id(contract: Contract) -> str:
    return f"{contract.method} {contract.path}"


QUERIED = [contract for contract in contracts() if contract.method == "GET" and contract.query is not None]
READ = [contract for contract in contracts() if contract.method == "GET" and contract.enveloped]
# The check of a store's name in addresses answers 200 for each text, with the reason against the name.
ANSWERING_ANY_TEXT = "applications.check_slug"
WITH_ID = [
    contract for contract in contracts() if "<" in contract.path and contract.name != ANSWERING_ANY_TEXT
]
WITH_BODY = [contract for contract in contracts() if contract.body is not None]


class People:
    """A caller with access to a route, an existing resource of this caller, and a valid body."""

    def __init__(self, market: Market, store: Store, bearer: Bearer) -> None:
        self._market, self._store, self._bearer = market, store, bearer
        self._admin, self._compliance = market.staff("admin"), market.staff("compliance")
        self._product = market.product(store)

    def headers(self, contract: Contract) -> dict[str, str]:
        """Return headers with a fresh idempotency key."""
        if contract.access.token is TokenPolicy.NONE:
            return {}
        if contract.access.token is TokenPolicy.FUNCTION:
            return KEYED
        people = {"vendor": self._store.user_id, "staff": self._admin}
        role = "staff" if contract.access.permissions else max(contract.access.roles or {"buyer"})
        person = people.get(role) or self._market.person()
        if MANAGE_COMPLIANCE in contract.access.permissions:
            person = self._compliance
        return self._bearer(person, aal="aal2", auth_time=time.time()) | {"Idempotency-Key": str(uuid4())}

    def path(self, contract: Contract) -> str:
        """Return a path with an existing product and store; other ids are unknown."""
        path = contract.path.replace("<uuid:product_id>", str(self._product))
        path = path.replace("<uuid:vendor_id>", str(self._store.id))
        return re.sub(r"<[^>]+>", str(uuid4()), path)

    def body(self, contract: Contract) -> dict[str, Any]:
        """Return a valid body for routes with required fields, otherwise an empty body."""
        line = {"productId": str(self._product), "quantity": 1}
        given: dict[str, dict[str, Any]] = {
            "catalog.create_product": listing_body(self._market),
            "cart.synchronise_cart": {"items": [line]},
            "orders.place_order": {"items": [line], "shippingAddress": {"hostel": "Mariere"}},
            "users.add_address": {"hostel": "Mariere"},
        }
        return given.get(contract.name, {})


@pytest.fixture
def people(market: Market, store: Store, bearer: Bearer) -> People:
    return People(market, store, bearer)


def assert_handled(response: Any, description: str) -> None:
    """Assert that the response is a success or a client error of this service.

    The tests have no language model, so the assistant refuses valid bodies.
    """
    if response.status_code == 503 and "assistant is not available" in response.text:
        return
    assert response.status_code < 500, f"{description}: {response.text[:300]}"
    assert response.status_code != 401


def required(contract: Contract) -> dict[str | None, str]:
    """Return the required query parameters of a route."""
    known = contract.query.fields.values() if contract.query else ()
    return {field.data_key: "lamp" for field in known if field.required}


@pytest.mark.parametrize("contract", QUERIED, ids=route_id)
def test_hostile_query_parameters_cause_no_server_error(
    client: FlaskClient, people: People, contract: Contract
) -> None:
    assert contract.query is not None
    headers = people.headers(contract)
    for number, field in enumerate(contract.query.fields.values()):
        for value in sample(PARAMETERS, every=6, offset=QUERIED.index(contract) + number):
            query = required(contract) | {field.data_key: value}
            response = client.get(people.path(contract), query_string=query, headers=headers)
            assert_handled(response, f"{field.data_key}={value[:40]!r}")
            # The webhook handshake refuses everything in the same way.
            if "\0" in value and contract.access.token is not TokenPolicy.NONE:
                assert faults_of(response) == [field.data_key]


@pytest.mark.parametrize("contract", READ, ids=route_id)
def test_unknown_or_repeated_parameters_are_refused(
    client: FlaskClient, people: People, contract: Contract
) -> None:
    known = [field.data_key for field in contract.query.fields.values()] if contract.query else []
    for name in [*known, "noSuchThing"]:
        response = client.get(f"{people.path(contract)}?{name}=1&{name}=2", headers=people.headers(contract))
        assert response.status_code == 422
        assert faults_of(response) == [name]
    if contract.cache_seconds and known:
        query = required(contract) | {"limit": "7"}
        kept = client.get(people.path(contract), query_string=query)
        assert kept.status_code == 200
        twice = [*query.items(), ("limit", "8")]
        assert client.get(people.path(contract), query_string=MultiDict(twice)).status_code == 422
    response = client.get(f"{people.path(contract)}?noSuchThing=1", headers=people.headers(contract))
    assert response.status_code == 422


def bodies(path: tuple[str, ...], valid: dict[str, Any], offset: int) -> Iterator[tuple[str, bytes]]:
    """Yield bodies with a single hostile field and valid other fields."""
    for value in sample(VALUES, every=6, offset=offset):
        yield f"{path}={value!r:.60}", orjson.dumps(replaced(valid, path, value))
    marked = orjson.dumps(replaced(valid, path, "MARKER"))
    for raw in sample(RAW_VALUES, every=6, offset=offset):
        yield f"{path}={raw!r:.60}", marked.replace(b'"MARKER"', raw)


def fields_of(schema: Schema) -> Iterator[tuple[str, ...]]:
    for name, field in schema.fields.items():
        key: tuple[str, ...] = (field.data_key or name,)
        yield key
        inner = field
        if isinstance(field, fields.List):
            inner, key = field.inner, (*key, "[]")
        if isinstance(inner, fields.Nested):
            yield from ((*key, below.data_key or "") for below in inner.schema.fields.values())


def replaced(value: Any, path: tuple[str, ...], odd: Any) -> Any:
    """Return a copy of a body with the value at a path replaced, creating missing parents."""
    if not path:
        return odd
    step, *below = path
    if step == "[]":
        return [replaced(value[0] if value else {}, tuple(below), odd)]
    found = value if isinstance(value, dict) else {}
    return found | {step: replaced(found.get(step), tuple(below), odd)}


@pytest.mark.parametrize("contract", WITH_BODY, ids=route_id)
def test_hostile_body_fields_cause_no_server_error(
    client: FlaskClient, people: People, contract: Contract
) -> None:
    assert contract.body is not None
    path, valid = people.path(contract), people.body(contract)
    for number, field in enumerate(fields_of(contract.body)):
        headers = people.headers(contract)
        for description, body in bodies(field, valid, WITH_BODY.index(contract) + number):
            response = client.open(
                path,
                method=contract.method,
                data=body,
                content_type="application/json",
                headers=headers | {"Idempotency-Key": str(uuid4())},
            )
            assert_handled(response, description)


# Bodies that are invalid for every route, and the expected status.
INVALID_BODIES = (
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"a":1,}', 400),
    (b"[" * 100_000, 400),
    (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"text"', 422),
    (b"7", 422),
    (b'{"noSuchThing":1}', 422),
    (b'{"\\u0000":1}', 422),
    (b" " * (1024 * 1024 + 1), 413),
)
INVALID_BODY_CASES = [
    pytest.param(contract, body, status, id=f"{route_id(contract)} {body[:12]!r}")
    for number, contract in enumerate(WITH_BODY)
    for body, status in sample(INVALID_BODIES, every=4, offset=number)
]


@pytest.mark.parametrize(("contract", "body", "status"), INVALID_BODY_CASES)
def test_malformed_body_is_refused(
    client: FlaskClient, people: People, contract: Contract, body: bytes, status: int
) -> None:
    response = client.open(
        people.path(contract),
        method=contract.method,
        data=b" " * (contract.max_body_bytes + 1) if status == 413 else body,
        content_type="application/json",
        headers=people.headers(contract),
    )
    assert response.status_code == status, response.text


@pytest.mark.parametrize("contract", WITH_ID, ids=route_id)
def test_malformed_id_is_not_found(client: FlaskClient, people: People, contract: Contract) -> None:
    for odd in ("x", "0", "%00", "..", "null", "é", uuid4().hex, f"{{{uuid4()}}}", f"{uuid4()}0", "%ff", "*"):
        path = re.sub(r"<[^>]+>", odd, contract.path)
        response = client.open(path, method=contract.method, headers=people.headers(contract))
        assert response.status_code == 404, (odd, response.text)


@pytest.mark.parametrize(
    "contract",
    [contract for contract in WITH_BODY if contract.name in ROUTES_WITH_REQUIRED_FIELDS],
    ids=route_id,
)
def test_base_bodies_are_accepted_without_hostile_values(
    client: FlaskClient, people: People, contract: Contract
) -> None:
    response = client.post(
        people.path(contract), json=people.body(contract), headers=people.headers(contract)
    )
    assert response.status_code == contract.status


def test_nested_fields_are_among_the_tested_fields() -> None:
    tried = [path for contract in WITH_BODY if contract.body for path in fields_of(contract.body)]
    assert ("items", "[]", "quantity") in tried
    assert ("shippingAddress", "hostel") in tried
