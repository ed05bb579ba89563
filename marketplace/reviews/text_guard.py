"""Guard of public texts: reviews and replies contain neither contact details nor offensive language."""

import json
import re
from functools import cache
from pathlib import Path

from marketplace.catalog.models import BannedTerm
from marketplace.catalog.moderation.banned_word_matcher import BannedWords
from marketplace.kernel.contact_detection import detect_contacts
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.text_normalization import normalize_text
from marketplace.reviews import texts

# Terms in English, Nigerian Pidgin, Yoruba, Igbo and Hausa, with harmless phrases that contain the term. Insults that
# are also names or everyday words are missing on purpose: staff decide about these after a report.
_TERMS_FILE = Path(__file__).with_name("profane_terms.json")
# A word with some letters masked, such as f**k. The first letter stays.
_MASKED_WORD = re.compile(r"(?<![a-z*])[a-z][a-z*]{0,20}\*[a-z*]{0,20}(?![a-z*])")
_MIN_MASKED_LETTERS = 2


def ensure_suitable(text: str, *, name: str) -> None:
    """Check that a text is suitable for a public page.

    :param name: the text's field in the API
    :raises ValidationError: the text contains contact details or offensive language
    """
    kinds = detect_contacts(text)
    faults = []
    if kinds:
        listed = " and ".join(sorted(kind.value for kind in kinds))
        faults.append(InvalidParam(name, texts.CONTACT_DETAILS_FIELD.format(kinds=listed)))
    if is_profane(text):
        faults.append(InvalidParam(name, texts.OFFENSIVE_LANGUAGE_FIELD))
    if faults:
        raise ValidationError(texts.UNSUITABLE_TEXT, invalid_params=faults)


def is_profane(text: str) -> bool:
    """Return whether a text contains a profane term in any spelling that ``BannedWords`` recognises, or masked."""
    terms = _profane_terms()
    return bool(_profane_words().find_phrases(text)) or any(
        _is_masked_term(word, terms) for word in _MASKED_WORD.findall(normalize_text(text))
    )


def _is_masked_term(word: str, terms: tuple[str, ...]) -> bool:
    if sum(letter != "*" for letter in word) < _MIN_MASKED_LETTERS:
        return False
    pattern = re.compile(word.replace("*", "[a-z]") + "s?")
    return any(pattern.fullmatch(term) for term in terms)


@cache
def _profane_terms() -> tuple[str, ...]:
    return tuple(_read_terms())


@cache
def _profane_words() -> BannedWords:
    return BannedWords(
        BannedTerm(term=term, exceptions=exceptions) for term, exceptions in _read_terms().items()
    )


def _read_terms() -> dict[str, list[str]]:
    terms: dict[str, list[str]] = json.loads(_TERMS_FILE.read_text())
    return terms
