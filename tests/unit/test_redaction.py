"""The one redaction function: what it takes out, what it leaves, and how long it takes."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from marketplace.kernel.redaction import MARKER, is_secret_key, redact, redact_text
from tests.support.depth import case_count
from tests.support.growth import assert_linear
from tests.support.secret_samples import PLAIN, PLAIN_TEXTS, SECRETS, TEXTS


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_replaced_by_its_name_whatever_it_looks_like(name: str) -> None:
    for value in (SECRETS[name], "x", 7, ["x"], {"inner": "x"}, b"x"):
        assert redact({name: value}) == {name: MARKER}
    assert redact({name: None}) == {name: None}


@pytest.mark.parametrize(
    "name",
    ["userpassword", "customerphonenumber", "phone1", "pin_2", "X-Api-Key", "proxy-authorization", "HTTP_COOKIE",
     "HTTP_X_GATEWAY_SIGNATURE", "card_last_4_digits", "National Identity Number", "account.number", "emailAddress",
     "s3_secret_access_key", "mobileNumber", "database_url", "otpCode", "DELIVERYPIN", "bvn_number"],
)  # fmt: skip
def test_a_name_is_secret_however_it_is_spelled(name: str) -> None:
    assert is_secret_key(name)


def test_a_name_and_its_value_in_a_list_are_seen_as_such() -> None:
    headers = [("Authorization", "Token opaque"), [b"x-api-key", b"opaque"], ["Host", "market.example"]]

    assert redact(headers) == [["Authorization", MARKER], ["x-api-key", MARKER], ["Host", "market.example"]]


def test_what_is_replaced_in_a_text_keeps_its_name() -> None:
    assert redact_text('{"pin": "739214", "orderId": 7}') == f'{{"pin": {MARKER}, "orderId": 7}}'
    assert redact_text("(password='it\\'s of somebody', n=7)") == f"(password={MARKER}, n=7)"
    assert redact_text("GET /x?pin=739214&limit=20") == f"GET /x?pin={MARKER}&limit=20"


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_in_a_text_is_told_by_its_shape(text: str) -> None:
    assert TEXTS[text] in text
    for found in (redact_text(text), redact({"note": text})["note"], redact([text.encode()])[0]):
        assert TEXTS[text] not in found
        assert MARKER in found


@pytest.mark.parametrize("name", PLAIN)
def test_ids_amounts_and_times_stay(name: str) -> None:
    assert redact({name: PLAIN[name]}) == {name: PLAIN[name]}


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_plain_texts_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "name",
    ["spin", "shipping", "binary", "robin", "tokenType", "pinAttempts", "phone_number_id", "bankCode", ""],
)
def test_names_that_only_resemble_a_secret_are_none(name: str) -> None:
    assert not is_secret_key(name)


def test_secrets_are_found_at_any_depth_and_in_any_container() -> None:
    value: Any = SECRETS
    for _ in range(8):
        value = {"outer": [value, (value,)]} if isinstance(value, dict) else [value]
    shown = repr(redact({"body": value, "set": {"0123456789"}}))
    assert all(secret not in shown for secret in SECRETS.values())


def test_what_lies_too_deep_is_replaced_whole() -> None:
    value: Any = "deep"
    for _ in range(50):
        value = [value]
    assert "deep" not in repr(redact(value))
    assert MARKER in repr(redact(value))


def test_a_number_that_is_a_key_is_replaced_too() -> None:
    assert redact({"08031234567": 3, 5: "five"}) == {MARKER: 3, 5: "five"}


def test_other_objects_are_shown_by_their_redacted_text() -> None:
    class Charge:
        def __str__(self) -> str:
            return "Charge(authorization_code='CODE_72btv547pk')"

    assert "CODE_72btv547pk" not in redact(Charge())
    assert "739214" not in redact(ValueError("pin=739214"))


def test_redaction_changes_nothing_of_what_it_is_given() -> None:
    given_value = {"pin": "1234", "list": [{"phone": "x"}]}
    redact(given_value)
    assert given_value == {"pin": "1234", "list": [{"phone": "x"}]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_redacting_twice_is_redacting_once(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once


@given(st.text(), st.from_regex(r"0[789][01]\d{8}", fullmatch=True))
def test_a_phone_number_never_survives_between_spaces(text: str, number: str) -> None:
    assert number not in redact_text(f"{text} {number} {text}") or number in text


@pytest.mark.parametrize(
    "piece",
    ["0 ", "1", "a_", "abc_", "a.", "a.b", "x@", "x@a.", "(0", "-1", "+1", "pin ", "pin is ", "pin='", "bearer ", "eyJ",
     "eyJaaaaaaaaa.", "://", "basic ", "password", "last ", "card ", "account_", '"',
     "a=", '="', "\\", '\\"', "[", "1-", "a'", "%40", "pbkdf2:a", "sk_test_", "AUTH_", "ending ", "**", "0803 ",
     "+234(", "'a', ", "cookie=", "pin for ", "a is ", "12 345 ", "%20", "1 is your "],
)  # fmt: skip
def test_redaction_time_grows_linearly_with_the_text(piece: str) -> None:
    length = case_count(30_000, deep=200_000)

    assert_linear(lambda text: redact_text(f"pin {text}@"), piece, length=length)
