"""Cursors decode to the encoded position, and any other text is refused."""

import base64
import json
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from marketplace.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from marketplace.kernel.paging import CursorValueType, PageRequest, UnknownCursorError

KEY = b"of-the-tests-only-0123456789abcdef"
URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=40) | st.uuids().map(str)
)
POSITIONS = st.lists(SCALARS, min_size=1, max_size=4)
LISTINGS = st.text(max_size=60)


@given(LISTINGS, POSITIONS)
def test_cursor_decodes_to_encoded_position(listing: str, position: list[Any]) -> None:
    cursor = encode_cursor(KEY, listing=listing, position=position)

    assert set(cursor) <= set(URL_SAFE)
    assert len(cursor) <= 1024
    assert decode_cursor(KEY, listing=listing, cursor=cursor) == position


@given(POSITIONS, st.data())
def test_cursor_with_any_character_altered_is_refused(position: list[Any], data: st.DataObject) -> None:
    cursor = encode_cursor(KEY, listing="products", position=position)
    index = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.sampled_from(URL_SAFE + "=+/ é\0").filter(lambda one: one != cursor[index]))

    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing="products", cursor=cursor[:index] + other + cursor[index + 1 :])


@given(POSITIONS, st.data())
def test_cursor_with_any_byte_altered_is_refused(position: list[Any], data: st.DataObject) -> None:
    cursor = encode_cursor(KEY, listing="products", position=position)
    parts = [bytearray(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in cursor.split(".")]
    content = data.draw(st.sampled_from(parts))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    altered = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)

    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing="products", cursor=altered)


@given(POSITIONS, st.integers(0, 200), st.text(URL_SAFE, max_size=8))
def test_truncated_or_extended_cursor_is_refused(position: list[Any], kept: int, added: str) -> None:
    cursor = encode_cursor(KEY, listing="products", position=position)
    altered = cursor[:kept] + added
    assume(altered != cursor)

    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing="products", cursor=altered)


@given(LISTINGS, LISTINGS, POSITIONS)
def test_cursor_is_invalid_for_another_listing_or_key(one: str, other: str, position: list[Any]) -> None:
    assume(one != other)
    cursor = encode_cursor(KEY, listing=one, position=position)

    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing=other, cursor=cursor)
    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY[::-1], listing=one, cursor=cursor)


@given(st.text(max_size=2000))
def test_text_that_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing="products", cursor=text)


def test_oversized_cursor_is_refused_before_decoding() -> None:
    with pytest.raises(InvalidCursorError):
        decode_cursor(KEY, listing="products", cursor="A" * 10_000_000)


def test_cursor_is_hardly_longer_than_the_position() -> None:
    cursor = encode_cursor(KEY, listing="products", position=[TIME, ID])

    assert len(cursor) <= 4 * len(json.dumps([TIME, ID])) // 3 + 24


ID, TIME = "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f6071", "2026-11-20T09:30:00.000001Z"


@pytest.mark.parametrize(
    ("position", "parts"),
    [
        ([ID], ("id",)),
        ([TIME, ID], ("time", "id")),
        ([7, "a", True, 0.5], ("number", "text", "flag", "number")),
    ],
    ids=repr,
)
def test_position_is_read_with_the_value_types_of_the_listing(
    position: list[Any], parts: tuple[CursorValueType, ...]
) -> None:
    assert PageRequest(20, position).after(*parts) == position
    assert PageRequest(20).after(*parts) == [None] * len(parts)


@pytest.mark.parametrize(
    ("position", "parts"),
    [
        ([], ("id",)),
        ([ID], ("id", "time")),
        ([ID, TIME], ("id",)),
        ([ID, TIME], ("time", "id")),
        ([ID.replace("-", "")], ("id",)),
        ([7], ("id",)),
        ([ID], ("time",)),
        ([TIME[:-1]], ("time",)),
        (["7"], ("number",)),
        ([True], ("number",)),
        ([None], ("text",)),
        ([1], ("flag",)),
        ([[ID]], ("id",)),
    ],
    ids=repr,
)
def test_position_of_another_shape_is_refused(
    position: list[Any], parts: tuple[CursorValueType, ...]
) -> None:
    with pytest.raises(UnknownCursorError) as refused:
        PageRequest(20, position).after(*parts)

    assert [fault.name for fault in refused.value.invalid_params] == ["cursor"]
