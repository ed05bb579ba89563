"""Redaction: removed secrets, kept values, and linear running time."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from marketplace.kernel.redaction import MARKER, is_secret_key, redact, redact_text
from tests.support.depth import case_count
from tests.support.growth import assert_linear
from tests.support.secret_samples import PLAIN, PLAIN_TEXTS, SECRETS, TEXTS


@pytest.mark.parametrize("name", SECRETS)
def test_value_of_secret_key_is_masked_in_any_form(name: str) -> None:
    for value in (SECRETS[name], "x", 7, ["x"], {"inner": "x"}, b"x"):
        assert redact({name: value}) == {name: MARKER}
    assert redact({name: None}) == {name: None}


@pytest.mark.parametrize(
    "name",
    ["userpassword", "customerphonenumber", "phone1", "pin_2", "X-Api-Key", "proxy-authorization", "HTTP_COOKIE",
     "HTTP_X_GATEWAY_SIGNATURE", "card_last_4_digits", "National Identity Number", "account.number", "emailAddress",
     "s3_secret_access_key", "mobileNumber", "database_url", "otpCode", "DELIVERYPIN", "bvn_number"],
)  # fmt: skip
def test_secret_key_is_recognized_in_any_spelling(name: str) -> None:
    assert is_secret_key(name)


def test_pairs_of_key_and_value_in_a_list_are_recognized() -> None:
    headers = [("Authorization", "Token opaque"), [b"x-api-key", b"opaque"], ["Host", "market.example"]]

    assert redact(headers) == [["Authorization", MARKER], ["x-api-key", MARKER], ["Host", "market.example"]]


def test_masked_value_in_text_keeps_the_key() -> None:
    assert redact_text('{"pin": "739214", "orderId": 7}') == f'{{"pin": {MARKER}, "orderId": 7}}'
    assert redact_text("(password='it\\'s of somebody', n=7)") == f"(password={MARKER}, n=7)"
    assert redact_text("GET /x?pin=739214&limit=20") == f"GET /x?pin={MARKER}&limit=20"


@pytest.mark.parametrize("text", TEXTS)
def test_secret_in_text_is_recognized_by_shape(text: str) -> None:
    assert TEXTS[text] in text
    for found in (redact_text(text), redact({"note": text})["note"], redact([text.encode()])[0]):
        assert TEXTS[text] not in found
        assert MARKER in found


@pytest.mark.parametrize("name", PLAIN)
def test_ids_amounts_and_times_are_kept(name: str) -> None:
    assert redact({name: PLAIN[name]}) == {name: PLAIN[name]}


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_plain_texts_are_kept(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "name",
    ["spin", "shipping", "binary", "robin", "tokenType", "pinAttempts", "phone_number_id", "bankCode", ""],
)
def test_keys_that_only_resemble_a_secret_are_kept(name: str) -> None:
    assert not is_secret_key(name)


def test_secrets_are_found_at_any_depth_and_in_any_container() -> None:
    value: Any = SECRETS
    for _ in range(8):
        value = {"outer": [value, (value,)]} if isinstance(value, dict) else [value]
    shown = repr(redact({"body": value, "set": {"0123456789"}}))
    assert all(secret not in shown for secret in SECRETS.values())


def test_too_deeply_nested_value_is_masked_completely() -> None:
    value: Any = "deep"
    for _ in range(50):
        value = [value]
    assert "deep" not in repr(redact(value))
    assert MARKER in repr(redact(value))


def test_phone_number_as_key_is_masked() -> None:
    assert redact({"08031234567": 3, 5: "five"}) == {MARKER: 3, 5: "five"}


def test_other_objects_become_redacted_text() -> None:
    class Charge:
        def __str__(self) -> str:
            return "Charge(authorization_code='CODE_72btv547pk')"

    assert "CODE_72btv547pk" not in redact(Charge())
    assert "739214" not in redact(ValueError("pin=739214"))


def test_redaction_does_not_modify_the_input() -> None:
    given_value = {"pin": "1234", "list": [{"phone": "x"}]}
    redact(given_value)
    assert given_value == {"pin": "1234", "list": [{"phone": "x"}]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_redaction_is_idempotent(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once


@given(st.text(), st.from_regex(r"0[789][01]\d{8}", fullmatch=True))
def test_phone_number_between_spaces_is_always_masked(text: str, number: str) -> None:
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
