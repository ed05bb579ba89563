"""Request bodies and parameters: every invalid field is named by path, and malformed input is refused."""

import json
import sys
from typing import Any
from uuid import uuid4

import marshmallow
import orjson
import pytest
from flask.testing import FlaskClient
from marshmallow import validate

from blueprints.http import Context
from blueprints.http.contract import PUBLIC, SharedLimit
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    Degrees,
    HttpUrl,
    IntegerParameter,
    MinorAmount,
    Phone,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from blueprints.http.request_parsing import MAX_BODY_BYTES
from marketplace.services import Services
from tests.support.probes import assert_problem, faults, probe_area, serve

area = probe_area()
PATH = "/api/probe/everything"


class Item(Schema):
    """An item of a list."""

    product_id = Uuid(required=True)
    quantity = StrictInteger(minimum=1, maximum=99, required=True)


class Everything(Schema):
    """A body with a field of each kind."""

    text = Text(max_length=20)
    line = SingleLineText(max_length=20)
    number = StrictInteger(minimum=-(2**63))
    price_minor = MinorAmount()
    flag = StrictBoolean()
    owner_id = Uuid()
    kind = Choice("red", "green")
    moment = Timestamp()
    website = HttpUrl()
    latitude = Degrees(max_degrees=90)
    phone = Phone()
    tags = UniqueList(SingleLineText(max_length=10), max_length=3)
    items = marshmallow.fields.List(
        marshmallow.fields.Nested(Item), validate=validate.Length(max=5), data_key="items"
    )


class Filters(Schema):
    """A query with a parameter of each kind."""

    limit = IntegerParameter(minimum=1, maximum=100, load_default=20)
    min_price = IntegerParameter(minimum=0)
    in_stock = BooleanParameter()
    search_text = Text(max_length=20)


@area.post("/everything", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Everything)
def everything(_ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    return body


@area.post("/several", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Item(many=True))
def several(_ctx: Context, body: list[dict[str, Any]]) -> int:
    return len(body)


@area.get("/filtered", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Filters)
def filtered(_ctx: Context, query: dict[str, Any]) -> dict[str, Any]:
    return query


@area.get("/plain", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def plain(_ctx: Context) -> None:
    """Take no parameters."""


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def send(probe: FlaskClient, raw: bytes, path: str = PATH) -> Any:
    return probe.post(path, data=raw, content_type="application/json")


def test_valid_body_is_normalized_and_renamed(probe: FlaskClient) -> None:
    owner = uuid4()
    given = {
        "text": " two\nlines\t ",
        "line": "  one \n  line ",
        "number": 2**63 - 1,
        "priceMinor": 0,
        "flag": False,
        "ownerId": str(owner).upper(),
        "kind": "red",
        "moment": "2026-11-21T10:00:00+01:00",
        "website": "https://shop.example/a?b=c",
        "latitude": -90,
        "phone": "08031234567",
        "tags": ["a", "b"],
        "items": [{"productId": str(owner), "quantity": 99}],
    }
    response = probe.post(PATH, json=given)
    assert response.status_code == 200, response.json
    assert response.json["data"] == {
        "text": "two\nlines",
        "line": "one line",
        "number": 2**63 - 1,
        "price_minor": 0,
        "flag": False,
        "owner_id": str(owner),
        "kind": "red",
        "moment": "2026-11-21T09:00:00Z",
        "website": "https://shop.example/a?b=c",
        "latitude": -90.0,
        "phone": "+2348031234567",
        "tags": ["a", "b"],
        "items": [{"product_id": str(owner), "quantity": 99}],
    }
    assert send(probe, b"").json["data"] == {}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("text", ["", "  ", "x" * 21, "a\0b", "\x1b[31m", "a\x7f", 7, True, ["x"], {}]),
        ("line", ["", "\n", "x" * 21, "a\0", 7]),
        ("number", ["7", 7.0, 7.5, 1e3, True, [], 2**63, -(2**63) - 1, 2**64, 10**30, "", "0x7"]),
        ("priceMinor", [-1, 10**15 + 1, "100", 100.0, 0.1, True]),
        ("flag", ["true", 1, 0, "yes", "", []]),
        ("ownerId", ["7", "", uuid4.__name__, "0b7c9a526a3e4f5e9d0e2f1c8f6a7b11", 7, [], "é" * 36]),
        ("kind", ["blue", "", "Red", " red", 7, ["red"]]),
        (
            "moment",
            ["2026-11-21", "2026-11-21T10:00:00", "now", "", 7, [], "0001-01-01T00:00:00+23:00"],
        ),
        ("website", ["shop", "ftp://shop.example", "javascript:alert(1)", "", 7, "https://x/" + "y" * 2000]),
        ("latitude", [90.001, -91, "5", True, []]),
        ("phone", ["7", "", "+2341234567890", 8031234567, "0803123456\u0667"]),
        ("tags", ["a", ["a", "a"], ["a", "b", "c", "d"], [""], [7], {"0": "a"}]),
        ("items", [{}, "x", [[]], ["x"], [None], [{}] * 6]),
    ],
)
def test_each_field_refuses_invalid_values(probe: FlaskClient, name: str, values: list[Any]) -> None:
    for value in values:
        # The json module, since orjson refuses integers beyond 64 bits.
        refused = faults(send(probe, json.dumps({name: value}).encode()))
        assert refused, value
        assert all(fault == name or fault.startswith((f"{name}[", f"{name}.")) for fault in refused), value


def test_null_means_that_an_optional_field_is_left_out(probe: FlaskClient) -> None:
    names = [field.data_key for field in Everything().fields.values()]
    assert send(probe, orjson.dumps(dict.fromkeys(names))).json["data"] == {}
    given = {"items": [{"productId": None, "quantity": 1}], "tags": [None], "unknown": None}
    assert sorted(faults(send(probe, orjson.dumps(given)))) == ["items[0].productId", "tags[0]", "unknown"]


def test_each_fault_is_listed_once_with_path(probe: FlaskClient) -> None:
    given = {
        "number": "x",
        "items": [
            {"productId": str(uuid4()), "quantity": 0},
            {"productId": "x", "quantity": 1, "extra": 1},
            {},
        ],
        "tags": ["same", "same", ""],
        "unknown": 1,
        "price_minor": 5,
    }
    response = probe.post(PATH, json=given)
    assert sorted(faults(response)) == [
        "items[0].quantity",
        "items[1].extra",
        "items[1].productId",
        "items[2].productId",
        "items[2].quantity",
        "number",
        "price_minor",
        "tags[2]",
        "unknown",
    ]
    assert all(item["reason"] for item in response.json["invalid_params"])
    assert faults(probe.post(PATH, json={"tags": ["same", "x", "same"]})) == ["tags[2]"]


def test_faults_in_array_body_are_named_by_index(probe: FlaskClient) -> None:
    path = "/api/probe/several"
    good = {"productId": str(uuid4()), "quantity": 1}
    assert send(probe, orjson.dumps([good, good]), path).json["data"] == 2
    assert faults(send(probe, orjson.dumps([good, {"quantity": 1}]), path)) == ["[1].productId"]
    assert faults(send(probe, orjson.dumps(good), path)) == ["body"]


@pytest.mark.parametrize("raw", [b"[]", b"7", b'"x"', b"null", b"true", b"[{}]"])
def test_json_body_other_than_object_is_refused(probe: FlaskClient, raw: bytes) -> None:
    assert faults(send(probe, raw)) == ["body"]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"x",
        b"{'text': 'x'}",
        b'{"text": "x",}',
        b'{"text": "x"} {}',
        b'{"text": "\xff\xfe"}',
        b"\xff\xfe{\x00}\x00",
        b'\xef\xbb\xbf{"text": "x"}',
        b'{"text": "\x00"}',
        b'{"text": "\\ud800"}',
        b'{"number": NaN}',
        b'{"number": Infinity}',
        b'{"number": 01}',
        b'{"number": 0x10}',
        b'{"latitude": 1e999}',
        b"\x00",
        b"   ",
        b"[" * MAX_BODY_BYTES,
        b"[" * (MAX_BODY_BYTES // 2) + b"]" * (MAX_BODY_BYTES // 2),
        b'{"a":' * (MAX_BODY_BYTES // 5),
        b'{"text": "' + b"\\" * (MAX_BODY_BYTES - 12),
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_malformed_json_is_bad_request(probe: FlaskClient, raw: bytes) -> None:
    body = assert_problem(send(probe, raw), 400, "VALIDATION_FAILED")
    assert body["title"] == "Bad Request"
    assert len(body["detail"]) < 200


@pytest.mark.parametrize("depth", [100, 300, 1000])
def test_deeply_nested_json_causes_no_error(probe: FlaskClient, depth: int) -> None:
    for field in (b"text", b"items", b"unknown"):
        raw = b'{"' + field + b'":' + b"[" * depth + b"]" * depth + b"}"
        assert send(probe, raw).status_code in (400, 422)
    raw = b'{"items":[' + b'{"productId":' * depth + b"1" + b"}" * depth + b"]}"
    assert send(probe, raw).status_code in (400, 422)


def test_number_of_half_a_million_digits_is_refused(probe: FlaskClient) -> None:
    raw = b'{"number": ' + b"9" * (MAX_BODY_BYTES // 2) + b"}"
    assert send(probe, raw).status_code in (400, 422)
    assert sys.get_int_max_str_digits() == 4300


def test_only_first_fifty_faults_are_listed_and_long_names_truncated(probe: FlaskClient) -> None:
    many = send(probe, orjson.dumps({f"unknown{number}": 1 for number in range(50_000)}))
    assert len(faults(many)) == 50
    assert len(many.get_data()) < 20_000
    long = send(probe, orjson.dumps({"x" * (MAX_BODY_BYTES - 100): 1}))
    assert len(faults(long)) == 1
    assert len(long.get_data()) < 2_000


def test_last_value_of_repeated_field_is_used(probe: FlaskClient) -> None:
    assert send(probe, b'{"number": 1, "number": 2}').json["data"] == {"number": 2}


# Parameters


def test_query_parameters_are_parsed_with_defaults(probe: FlaskClient) -> None:
    path = "/api/probe/filtered"
    assert probe.get(path).json["data"] == {"limit": 20}
    query = {"limit": "1", "minPrice": str(2**59), "inStock": "false", "searchText": " é "}
    expected = {"limit": 1, "min_price": 2**59, "in_stock": False, "search_text": "é"}
    assert probe.get(path, query_string=query).json["data"] == expected


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("limit=0", ["limit"]),
        ("limit=101", ["limit"]),
        ("limit=-1&minPrice=-1", ["limit", "minPrice"]),
        ("limit=5.0", ["limit"]),
        ("limit=1e1", ["limit"]),
        ("limit=+5", ["limit"]),
        ("limit=%205", ["limit"]),
        ("limit=5%0A", ["limit"]),
        ("limit=%D9%A5", ["limit"]),
        ("limit=", ["limit"]),
        ("limit", ["limit"]),
        ("limit=" + "9" * 5000, ["limit"]),
        ("inStock=1", ["inStock"]),
        ("inStock=yes", ["inStock"]),
        ("searchText=", ["searchText"]),
        ("searchText=a%00b", ["searchText"]),
        ("searchText=" + "x" * 21, ["searchText"]),
        ("limit=1&limit=1", ["limit"]),
        ("limit=1&limit=2&inStock=x&inStock=y", ["inStock", "limit"]),
        ("unknown=1", ["unknown"]),
        ("Limit=1", ["Limit"]),
        ("min_price=1", ["min_price"]),
        ("limit%5B%5D=1", ["limit[]"]),
        ("=1", ["body"]),
    ],
)
def test_invalid_query_parameters_are_named(probe: FlaskClient, query: str, names: list[str]) -> None:
    assert sorted(faults(probe.get(f"/api/probe/filtered?{query}"))) == names


def test_route_without_query_schema_refuses_parameters(probe: FlaskClient) -> None:
    assert probe.get("/api/probe/plain?").status_code == 200
    assert faults(probe.get("/api/probe/plain?a=1&b=2")) == ["a", "b"]
    assert faults(probe.get("/api/probe/plain?a=1&a=2")) == ["a"]


def test_invalid_utf8_in_parameter_stays_percent_encoded(probe: FlaskClient) -> None:
    """Invalid bytes stay percent-encoded, so none is lost or truncated."""
    assert probe.get("/api/probe/filtered?searchText=%FF%FE").json["data"]["search_text"] == "%FF%FE"
    assert faults(probe.get("/api/probe/filtered?%FF=1")) == ["%FF"]
