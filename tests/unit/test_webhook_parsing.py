"""Webhook bodies: parsed into an event with a deduplication id, or refused as permanent failures."""

import orjson
import pytest
from hypothesis import given, strategies as st

from marketplace.webhooks.events import MAX_ID_LENGTH, PermanentEventError, parse_gateway_event


def body(event: object = "charge.success", data: object = None) -> bytes:
    return orjson.dumps({"event": event, "data": {"id": 7, "reference": "r"} if data is None else data})


def test_event_is_identified_by_id_of_data() -> None:
    event = parse_gateway_event(body())

    assert (event.type, event.dedupe_id) == ("charge.success", "charge.success:7")
    assert event.data == {"id": 7, "reference": "r"}
    assert event.payload["event"] == "charge.success"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"id": "TRF_1"}, "TRF_1"),
        ({"reference": "payout-1"}, "payout-1"),
        ({"id": None, "reference": "r"}, "r"),
        ({"id": "", "reference": "r"}, "r"),
        ({"id": True, "reference": "r"}, "r"),
        ({"id": 0, "reference": "r"}, "0"),
    ],
    ids=repr,
)
def test_event_without_id_is_identified_by_reference(data: dict[str, object], name: str) -> None:
    assert parse_gateway_event(body(data=data)).dedupe_id == f"charge.success:{name}"


@pytest.mark.parametrize("data", [{"amount": 1}, {"id": 1.5}, {"id": [1], "reference": 7}, {}], ids=repr)
def test_event_without_id_and_reference_is_identified_by_content(data: dict[str, object]) -> None:
    one, again, other = (parse_gateway_event(body(data=each)) for each in (data, data, data | {"more": 1}))

    assert one.dedupe_id == again.dedupe_id != other.dedupe_id
    assert one.type == "charge.success"


@pytest.mark.parametrize("rest", ["", ',"data":null', ',"data":[]', ',"data":"x"'])
def test_event_without_data_keeps_the_type(rest: str) -> None:
    one, other = (
        parse_gateway_event(f'{{"event":"charge.success","domain":"{word}"{rest}}}'.encode()) for word in "ab"
    )

    assert (one.type, one.data) == ("charge.success", {})
    assert one.dedupe_id != other.dedupe_id


@pytest.mark.parametrize("event", ["invoice.create", "subscription." + "x" * 300])
@pytest.mark.parametrize("length", [7, 400])
def test_too_long_id_is_replaced_by_a_digest(event: str, length: int) -> None:
    one, again, other = (
        parse_gateway_event(body(event, {"id": letter * length, "reference": "r"}))
        for letter in ("x", "x", "y")
    )

    assert one.dedupe_id == again.dedupe_id != other.dedupe_id
    assert len(one.dedupe_id) <= MAX_ID_LENGTH
    assert event.startswith(one.type)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 5_000 + b"]" * 5_000, "not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b"{}", "missing"),
        (body(event=None), "missing"),
        (body(event=""), "missing"),
        (body(event=7), "missing"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_unprocessable_body_is_a_permanent_error(raw: bytes, reason: str) -> None:
    with pytest.raises(PermanentEventError, match=reason):
        parse_gateway_event(raw)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"Ada\u0000", "Ada"),
        (rb"\u0000\u0000", ""),
        (rb"\\u0000", "\\u0000"),
        (rb"\\\u0000", "\\"),
        (rb"\\\\u0000", "\\\\u0000"),
    ],
)
def test_nul_character_in_customer_name_is_removed(written: bytes, read: str) -> None:
    """The database cannot store NUL, which must not lose a payment. The six characters alone are not NUL."""
    event = parse_gateway_event(b'{"event":"charge.success","data":{"id":1,"name":"' + written + b'"}}')

    assert event.data["name"] == read


@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_body_is_parsed_or_a_permanent_error(raw: bytes) -> None:
    try:
        event = parse_gateway_event(raw)
    except PermanentEventError:
        return
    assert event.dedupe_id.startswith(f"{event.type}:")


def test_lone_surrogate_is_replaced_and_payment_is_kept() -> None:
    event = parse_gateway_event(b'{"event":"charge.success","data":{"id":1,"metadata":{"note":"\\ud800"}}}')

    assert (event.dedupe_id, event.data["metadata"]) == ("charge.success:1", {"note": "?"})
