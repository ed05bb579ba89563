# ruff: noqa: RUF001 - look-alike characters are the test data
"""Detection of contact details in any spelling, without reports of prices, sizes, models, ISBNs, dates and times."""

import pytest
from hypothesis import given, strategies as st

from marketplace.kernel.contact_detection import ContactKind, detect_contacts
from tests.support.growth import assert_linear

PHONE, ACCOUNT, EMAIL, LINK, HANDLE = ContactKind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Call 08031234567 now", PHONE),
        ("0803 123 4567", PHONE),
        ("0803.123.4567", PHONE),
        ("(0803) 123-4567", PHONE),
        ("0803/123/4567", PHONE),
        ("0803—123—4567", PHONE),
        ("+234 803 123 4567", PHONE),
        ("+234 (0) 803 123 4567", PHONE),
        ("234-803-123-4567", PHONE),
        ("803 123 4567", PHONE),
        ("8031234567", PHONE),
        ("+1 202 555 0143", PHONE),
        ("o8o3 l23 4567", PHONE),
        ("0 8 0 3 1 2 3 4 5 6 7", PHONE),
        ("0_8_0_3_1_2_3_4_5_6_7", PHONE),
        ("zero eight zero three one two three four five six seven", PHONE),
        ("Zero-Eight-Zero-Three-One-Two-Three 4567", PHONE),
        ("zeroeightzerothree one two three 4567", PHONE),
        ("080 double three 1 2 3 4 5 6", PHONE),
        ("0803 triple one 2345", PHONE),
        ("０８０３１２３４５６７", PHONE),
        ("0️⃣8️⃣0️⃣3️⃣1️⃣2️⃣3️⃣4️⃣5️⃣6️⃣7️⃣", PHONE),
        ("٠٨٠٣١٢٣٤٥٦٧", PHONE),
        ("0803\u200b1234\u200b567", PHONE),
        ("1.08031234567", PHONE),
        ("16GB 08031234567", PHONE),
        ("Account 0123456789", ACCOUNT),
        ("acct no. 012 345 6789 GTB", ACCOUNT),
        ("pay to 0123456789", ACCOUNT),
        ("Opay 6123456789", ACCOUNT),
        ("gtb0123456789", ACCOUNT),
        ("acct: 1712345678", ACCOUNT),
        ("send money to 3123456789", ACCOUNT),
        ("Call08031234567", PHONE),
        ("2 0 7 1 9 4 4 0 3 8", ACCOUNT),
        ("zer0 e1ght zer0 thr33 f0ur f1ve s1x s3v3n e1ght n1ne 0ne", PHONE),
        ("zer0e1ghtzer0thr33 0ne tw0 three f0ur 5ix sev3n 8", PHONE),
        ("0803 and then 456 and finally 7891", PHONE),
        ("0803, then 456, and the last digits 7891", PHONE),
        ("+234 803 and 456 followed by 7891", PHONE),
        ("zero eight zero three and then four five six and finally seven eight nine one", PHONE),
        ("n g o z i @ g m a i l . c o m", EMAIL),
        ("n-g-o-z-i-@-g-m-a-i-l-.-c-o-m", EMAIL),
        ("ngozi @ g m a i l . c o m", EMAIL),
        ("n g o z i at g m a i l dot c o m", EMAIL),
        ("n g o z i a t g m a i l d o t c o m", EMAIL),
        ("m y s h o p . c o m", LINK),
        ("t.me slash ngozi", LINK),
        ("t . me / ngozi", LINK),
        ("t dot me slash ngozi", LINK),
        ("wa.me (slash) 234", LINK),
        ("@ n g o z i _ s e l l s", HANDLE),
        ("ada@example.com", EMAIL),
        ("Ada.Obi+shop@mail.unilag.edu.ng", EMAIL),
        ("ada @ gmail . com", EMAIL),
        ("ada (at) gmail (dot) com", EMAIL),
        ("ada at gmail dot com", EMAIL),
        ("ada@gmail", EMAIL),
        ("https://example.com/x", LINK),
        ("www.example", LINK),
        ("see myshop.com.ng", LINK),
        ("wa.me/message/X", LINK),
        ("t.me/ada", LINK),
        ("bit.ly/abc", LINK),
        ("myshop dot com", LINK),
        ("IG: ada_sells", HANDLE),
        ("insta = ada.sells", HANDLE),
        ("@ada_sells", HANDLE),
        ("telegram handle ada_sells", HANDLE),
        ("Twitter username is ada_sells", HANDLE),
        ("PayPal: ada", HANDLE),
        ("$adasells", HANDLE),
        ("@аda_sells", HANDLE),
    ],
)
def test_contact_details_are_found(text: str, kind: ContactKind) -> None:
    assert kind in detect_contacts(text)
    assert kind in detect_contacts(f"Very good lamp.\n{text}\nThanks.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Casio fx-991ES PLUS calculator",
        "15,000 - 20,000 naira",
        "₦8,000,000,000",
        "N 5000 6000 7000 8000",
        "700 800 1000",
        "Sizes 38 39 40 41 42 43 44",
        "ISBN 978-0-13-110362-7",
        "ISBN 9780131103627, 5 copies",
        "978 0 7061 2345 6, 5 copies",
        "ISBN 0131103628",
        "ISBN-10: 8120323459",
        "07/08/2026 10:30 to 09/08/2026",
        "2026-08-07 10:30",
        "Open 10:30-18:45 daily, 7 days",
        "128 256 512 GB",
        "8/256GB, 6.7 inch, 5000mAh, 120Hz",
        "Order CM-100001",
        "5 pcs @ N500. Call at the gate",
        "@5000 each",
        "@N5000 each",
        "@ 2k",
        "ASP.NET Core in Action",
        "Node.js and Vue.js",
        "Good condition.Me and my friend used it",
        "Wireless mouse 2.4GHz 1600dpi",
        "2019/2020 past questions, 100 level",
        "Keypad 0 1 2 3 4 5 6 7 8 9",
        "Signal: strong",
        "Facebook page design",
        "One size fits all, two in one, size eight",
        "1024x768 monitor",
        "4G router B310s-927",
        "Serial no: 0445110376",
        "WhatsApp works on it",
        "A4 80gsm 500 sheets x 5 reams",
        "1000000000",
        "Lamp 1763733600",
        "Lamp ab1234567890",
        "Lamp 12ab3456789012cd34",
        "Lamp 08123456-7891-4a00-8000-0812345678ab",
        "Lamp 0f0812345678c9e1d2a3b4c5d6e7f8a9",
        "iPhone 12 128GB, 100% original, 24/7 support, SM-G991B/DS",
        "EAN 5901234123457",
        "Pickup at 12:30, Block A.Room 12",
        "Chapters 1 2 3 4 5 6 7 8 9 10 11 12",
        "Sizes S M L XL, colours r g b",
        "Grades A B C D E F, tables 1 2 3 4 5",
        "S, M, L @ 5 0 0 0 each",
        "A - B - C . D of chemistry",
        "v i t a m i n s",
        "Buy 5 and then 10 and finally 20, from 500 and 1000 and 2000",
        "Models 0803 and 456 and 12",
        "07/08 and then 09/10 and 11/12, rooms 101 and 102 and 103",
        "Between 8000 and 9000 and 10000 naira",
        "51x zoom and 3x and 10x, 60n 40n 33mm 1000 2000",
        "Don't. Me / my friend used it, left/right",
        "Slash prices. Slash the price of two",
        "N o . 5 perfume, 50 ml, 1 . 5 l",
    ],
)
def test_harmless_text_that_resembles_contact_details_passes(text: str) -> None:
    assert detect_contacts(text) == frozenset()


_NAMES = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
_DIGITS = st.tuples(
    st.sampled_from("789"), st.sampled_from("01"), st.text("0123456789", min_size=8, max_size=8)
)
_SEPARATOR = st.sampled_from(["", " ", "-", ".", "  ", "/", "_", " - ", "*", "\u2013", ", "])
_PROSE = st.lists(
    st.sampled_from(["good", "lamp", "desk", "fan", "size", "price", "clean", "used", "for sale", "in hall"]),
    max_size=6,
).map(" ".join)


def _spelled(digit: str, how: int) -> str:
    return (digit, _NAMES[int(digit)], chr(0xFF10 + int(digit)), chr(0x0660 + int(digit)))[how]


@given(
    prefix=st.sampled_from(["0", "+234", "234"]),
    number=_DIGITS,
    separators=st.lists(_SEPARATOR, min_size=14, max_size=14),
    before=_PROSE,
    after=_PROSE,
)
def test_phone_number_is_found_with_any_separators(
    prefix: str, number: tuple[str, str, str], separators: list[str], before: str, after: str
) -> None:
    digits = prefix + "".join(number)
    written = "".join(
        digit + separator for digit, separator in zip(digits, [*separators, ""], strict=False)
    ).rstrip(" -./_*\u2013,")
    assert PHONE in detect_contacts(f"{before} {written} {after}")


@given(number=_DIGITS, how=st.lists(st.integers(0, 3), min_size=11, max_size=11))
def test_phone_number_is_found_in_words_and_other_digits(
    number: tuple[str, str, str], how: list[int]
) -> None:
    digits = "0" + "".join(number)
    written = " ".join(_spelled(digit, kind) for digit, kind in zip(digits, how, strict=True))
    assert PHONE in detect_contacts(f"call {written} now")


_HARMLESS = st.one_of(
    st.integers(1, 99_999_999).map(lambda naira: f"₦{naira:,}"),
    st.integers(1, 999_999).map(lambda naira: f"N{naira}"),
    st.integers(20, 60).map(lambda size: f"size {size}"),
    st.tuples(st.integers(0, 23), st.integers(0, 59)).map(lambda at: f"{at[0]:02}:{at[1]:02}"),
    st.dates().map(lambda day: day.strftime("%d/%m/") + f"{2000 + day.year % 100}"),
    st.sampled_from(["fx-991ES", "8/256GB", "5000mAh", "6.7 inch", "CM-100001", "A4", "RTX 3060", "A52s 5G"]),
)


@given(st.lists(_HARMLESS, max_size=5), _PROSE)
def test_prices_sizes_models_dates_and_times_pass(things: list[str], prose: str) -> None:
    assert detect_contacts(f"{prose}. {' and '.join(things)}") == frozenset()


@pytest.mark.parametrize(
    "unit",
    [
        "0 ",
        "0",
        "a@",
        "zero",
        "a.",
        "a-",
        "@a",
        "1-",
        "double ",
        "a dot ",
        "(at)",
        "a",
        "1 2.",
        "+1",
        "08",
        "ig:",
        "０",
        "97",
        "a ",
        "@ ",
        "zer0",
        "thr33 ",
        "1 and ",
        "0 7 0 ",
        "t . me ",
        "t.me slash",
        "a.me ",
    ],
)
def test_detection_time_grows_linearly_with_the_text(unit: str) -> None:
    assert_linear(detect_contacts, unit, length=5_000)
