"""Parsing of gateway charges, and verification of webhook signatures."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.payments import customer_email
from marketplace.providers.webhook_signature import signature_matches

WIRE: dict[str, Any] = {
    "id": 4_099_260_516,
    "status": "success",
    "reference": "checkout-0123456789abcdef0123456789abcdef",
    "amount": 560_100,
    "fees": 8_402,
    "currency": "NGN",
    "channel": "card",
    "paid_at": "2026-11-21T10:00:00.000Z",
}
SECRET = "sk_test_unit"
BODY = b'{"event":"charge.success"}'


def test_charge_is_parsed() -> None:
    assert Charge.from_wire(WIRE) == Charge(
        id="4099260516",
        reference=WIRE["reference"],
        status="success",
        amount_minor=560_100,
        fees_minor=8_402,
        currency="NGN",
        channel="card",
        paid_at=datetime(2026, 11, 21, 10, tzinfo=UTC),
    )


@pytest.mark.parametrize("amount", [0, 1, 10**15])
def test_integer_amount_in_range_is_accepted(amount: int) -> None:
    assert Charge.from_wire(WIRE | {"amount": amount}).amount_minor == amount


@pytest.mark.parametrize(
    "amount",
    [5601.0, 560_100.5, "560100", "", True, False, None, -1, 10**15 + 1, 2**63, 1e300, [560_100], {"NGN": 1}],
    ids=repr,
)
@pytest.mark.parametrize("field", ["amount", "fees"])
def test_other_values_are_refused_as_amount(field: str, amount: Any) -> None:
    if (field, amount) == ("fees", None):
        assert Charge.from_wire(WIRE | {"fees": None}).fees_minor == 0
        return
    with pytest.raises(MalformedGatewayDataError, match=f"data.{field} is"):
        Charge.from_wire(WIRE | {field: amount})


@pytest.mark.parametrize("field", ["reference", "status", "amount", "currency"])
def test_missing_field_is_named(field: str) -> None:
    with pytest.raises(MalformedGatewayDataError, match=f"data.{field} is not"):
        Charge.from_wire({name: value for name, value in WIRE.items() if name != field})


@pytest.mark.parametrize(
    "wrong",
    [{"id": "4099260516"}, {"id": 1.5}, {"id": True}, {"reference": 7}, {"status": None}, {"currency": 566}],
    ids=repr,
)
def test_field_of_wrong_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MalformedGatewayDataError):
        Charge.from_wire(WIRE | wrong)


@pytest.mark.parametrize("data", [None, [], "charge", 7, [WIRE]], ids=repr)
def test_charge_that_is_not_an_object_is_refused(data: Any) -> None:
    with pytest.raises(MalformedGatewayDataError, match="not an object"):
        Charge.from_wire(data)


@pytest.mark.parametrize("channel", [None, 7, ["card"]], ids=repr)
def test_unrecognized_channel_does_not_refuse_the_charge(channel: Any) -> None:
    assert Charge.from_wire(WIRE | {"channel": channel}).channel == "unknown"


@pytest.mark.parametrize("paid_at", [None, 1_700_000_000, "2026-11-21T10:00:00"], ids=repr)
def test_payment_time_without_zone_is_dropped(paid_at: Any) -> None:
    assert Charge.from_wire(WIRE | {"paid_at": paid_at}).paid_at is None


def test_charge_without_id_is_identified_by_reference() -> None:
    charge = Charge.from_wire({name: value for name, value in WIRE.items() if name != "id"})

    assert charge.id == charge.reference == WIRE["reference"]


@pytest.mark.parametrize(
    "odd",
    [
        "yesterday",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "1970-01-01T00:00:00Z",
        "2026-11-20T09:30:00",
    ],
)
def test_implausible_payment_time_is_dropped(odd: str) -> None:
    assert Charge.from_wire(WIRE | {"paid_at": odd}).paid_at is None


def test_payment_time_is_converted_to_utc() -> None:
    assert Charge.from_wire(WIRE | {"paid_at": "2026-11-20T10:30:00+01:00"}).paid_at == datetime(
        2026, 11, 20, 9, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("status", "settled", "failed"),
    [
        ("success", True, False),
        ("failed", False, True),
        ("abandoned", False, True),
        ("reversed", False, True),
        ("pending", False, False),
        ("SUCCESS", False, False),
    ],
)
def test_only_status_success_counts_as_paid(status: str, settled: bool, failed: bool) -> None:
    charge = Charge.from_wire(WIRE | {"status": status})

    assert (charge.is_successful, charge.has_failed) == (settled, failed)


@given(
    data=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(WIRE)), inner),
        max_leaves=12,
    )
)
def test_any_data_is_parsed_in_range_or_refused(data: Any) -> None:
    try:
        charge = Charge.from_wire(data)
    except MalformedGatewayDataError:
        return
    assert 0 <= charge.amount_minor <= 10**15
    assert 0 <= charge.fees_minor <= 10**15


def signed(body: bytes) -> str:
    return hmac.digest(SECRET.encode(), body, hashlib.sha512).hex()


def matches(secret: str, signature: str) -> bool:
    return signature_matches(secret=secret, body=BODY, signature=signature, algorithm="sha512")


def test_correct_signature_matches() -> None:
    assert matches(SECRET, signed(BODY))


@pytest.mark.parametrize(
    "signature",
    [
        "",
        signed(BODY)[:-1],
        signed(BODY) + "0",
        signed(BODY).upper(),
        signed(BODY + b" "),
        hmac.digest(SECRET.encode(), BODY, hashlib.sha256).hex(),
        "z" * 128,
        "\u0661" * 128,
        f" {signed(BODY)}",
    ],
    ids=[
        "empty",
        "short",
        "long",
        "upper case",
        "other body",
        "SHA-256",
        "not hex",
        "not ASCII",
        "leading space",
    ],
)
def test_wrong_signature_or_secret_does_not_match(signature: str) -> None:
    assert not matches(SECRET, signature)
    assert not matches("sk_test_other", signed(BODY))


def test_user_without_email_has_placeholder_email_for_providers() -> None:
    user_id = UUID(int=7)

    assert customer_email("ada@example.com", user_id) == "ada@example.com"
    assert customer_email(None, user_id) == f"{user_id}@users.invalid"
