"""Translated texts of notifications: phrases with named values, and gettext catalogues.

A catalogue is a file ``locale/<language>.po``. A text that is missing there stays in English.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import polib

ENGLISH = "en"
LANGUAGES = (ENGLISH, "pcm")
_LOCALE = Path(__file__).parent / "locale"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text in English with named placeholders, and their values."""

    text: str
    values: Mapping[str, str] = field(default_factory=dict)


# A plain text is shown as it is in every language.
Wording = str | Phrase | Sequence[str | Phrase]


def say(text: str, **values: str) -> Phrase:
    """Return a phrase to translate.

    :param text: a constant of a ``texts`` module
    :param values: the values of the text's placeholders
    """
    return Phrase(text, values)


def render(wording: Wording, language: str = ENGLISH) -> str:
    """Fill a wording in a language. Several phrases become sentences with a space between.

    :param language: one of ``LANGUAGES``
    """
    if isinstance(wording, str):
        return wording
    if isinstance(wording, Phrase):
        template = (
            wording.text if language == ENGLISH else _catalogue(language).get(wording.text, wording.text)
        )
        return template.format(**wording.values)
    return " ".join(render(part, language) for part in wording)


def translate(title: Wording, body: Wording) -> dict[str, list[str]]:
    """Return title and body in each language other than English in which they differ from English."""
    english = [render(title), render(body)]
    translations = {
        language: [render(title, language), render(body, language)]
        for language in LANGUAGES
        if language != ENGLISH and not (isinstance(title, str) and isinstance(body, str))
    }
    return {language: texts for language, texts in translations.items() if texts != english}


@cache
def _catalogue(language: str) -> Mapping[str, str]:
    entries = polib.pofile(str(_LOCALE / f"{language}.po"))
    return {entry.msgid: entry.msgstr for entry in entries if entry.msgstr and not entry.obsolete}
