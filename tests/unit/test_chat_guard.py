"""The guard of the chat, measured with labelled messages."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from marketplace.chat.guard import find_contact_details
from marketplace.chat.number_words import replace_number_words
from tests.support.growth import assert_linear

CORPUS = Path(__file__).parents[1] / "guard_corpus"


def read_corpus(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]


def is_refused(row: dict[str, Any]) -> bool:
    """Return whether the guard refuses a message of a sequence."""
    messages = row.get("messages") or [row["text"]]
    return any(
        find_contact_details(body, earlier=messages[:index]) is not None
        for index, body in enumerate(messages)
    )


def test_development_messages_are_classified_as_labelled() -> None:
    rows = read_corpus("development.jsonl")
    assert len(rows) >= 400
    wrong = [row for row in rows if is_refused(row) != (row["label"] == "block")]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("odo ejo odo eta", "0 8 0 3"),
        ("sifiri takwas biyar", "0 8 5"),
        ("efu asato otu", "0 8 1"),
        ("double five triple o", "5 5 0 0 0"),
        ("eighty three, forty", "83, 40"),
        ("nineteen", "19"),
        ("0 8 for kan tree", "0 8 4 1 3"),
        ("one for you", "1 for you"),
        ("stone tender", "stone tender"),
    ],
)
def test_number_words_become_digits(text: str, digits: str) -> None:
    assert replace_number_words(text) == digits


def test_earlier_messages_alone_do_not_block_an_ordinary_message() -> None:
    assert find_contact_details("thank you", earlier=("my line is 0803", "555")) is None


@pytest.mark.parametrize("piece", ["0 ", "odo ", "a@", "one ", "my ig ", "x.", "12k ", "1", "add ", "0803 "])
def test_time_grows_linearly_with_the_text(piece: str) -> None:
    assert_linear(find_contact_details, piece, length=16_000)


@given(st.text(max_size=300), st.lists(st.text(max_size=60), max_size=4))
def test_any_text_is_classified(text: str, earlier: list[str]) -> None:
    details = find_contact_details(text, earlier=earlier)
    assert details is None or details.kinds


def test_held_out_messages_reach_the_required_scores(capsys: pytest.CaptureFixture[str]) -> None:
    """The author of the rules does not read these messages. The test prints only counts."""
    rows = read_corpus("held_out.jsonl")
    assert len(rows) >= 400
    refused = [(is_refused(row), row["label"] == "block") for row in rows]
    found = sum(is_found and is_wanted for is_found, is_wanted in refused)
    recall = found / sum(is_wanted for _, is_wanted in refused)
    precision = found / sum(is_found for is_found, _ in refused)
    with capsys.disabled():
        print(f"guard: recall {recall:.3f}, precision {precision:.3f} on {len(rows)} held-out messages")
    assert min(recall, precision) >= 0.97


def test_corpora_share_no_message() -> None:
    texts = [
        {"\n".join(row.get("messages") or [row["text"]]).casefold() for row in read_corpus(name)}
        for name in ("development.jsonl", "held_out.jsonl")
    ]
    assert len(texts[0] & texts[1]) == 0
