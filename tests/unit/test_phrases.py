"""Translated texts of notifications: catalogues that fit the texts, and wordings in a language."""

import string
from importlib import import_module
from pathlib import Path

import polib
import pytest

from marketplace.notifications.phrases import LANGUAGES, render, say, translate
from marketplace.orders import texts as order_texts
from marketplace.payouts import texts as payout_texts

PROJECT = Path(__file__).parents[2]
LOCALE = PROJECT / "marketplace" / "notifications" / "locale"
CATALOGUES = {path.stem: polib.pofile(str(path)) for path in LOCALE.glob("*.po")}


def placeholders_of(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def all_texts() -> set[str]:
    """Return all texts of the domain's modules ``texts``."""
    found: set[str] = set()
    for path in (PROJECT / "marketplace").rglob("texts.py"):
        module = import_module(".".join(path.relative_to(PROJECT).with_suffix("").parts))
        for value in vars(module).values():
            found |= {value} if isinstance(value, str) else set()
            found |= (
                {one for one in value.values() if isinstance(one, str)} if isinstance(value, dict) else set()
            )
    return found


def test_every_language_but_english_has_a_catalogue() -> None:
    assert CATALOGUES.keys() == set(LANGUAGES) - {"en"}


@pytest.mark.parametrize("language", CATALOGUES)
def test_catalogue_translates_existing_texts_with_the_same_placeholders(language: str) -> None:
    entries = list(CATALOGUES[language])
    assert len(entries) >= 25
    assert [entry.msgid for entry in entries if entry.msgid not in all_texts()] == []
    assert [entry.msgid for entry in entries if not entry.msgstr] == []
    wrong = [
        entry.msgid for entry in entries if placeholders_of(entry.msgid) != placeholders_of(entry.msgstr)
    ]
    assert wrong == []


def test_sentences_are_joined_in_the_language() -> None:
    body = [
        say(order_texts.ORDER_EXPIRED_BODY, order_number="CM-1042"),
        say(order_texts.ORDER_EXPIRED_NEXT_STEP),
    ]

    assert render(body) == (
        "Order CM-1042 was not paid in time and has expired. If you still want the items, place a new order."
    )
    assert render(body, "pcm") == (
        "Nobody pay for order CM-1042 on time, so e don expire. If you still want the things, order again."
    )


def test_text_without_translation_stays_in_english() -> None:
    wording = say(payout_texts.PAYOUT_FAILED_TITLE)

    assert render(wording, "pcm") == render(wording)
    assert translate(wording, "A plain text.") == {}


def test_value_with_braces_is_not_filled_again() -> None:
    assert render(say("{store} replied", store="{price}")) == "{price} replied"
