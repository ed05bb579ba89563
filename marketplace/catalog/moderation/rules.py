"""Screening rules for listings. The module is pure: callers pass in all data to compare with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from marketplace.catalog import texts
from marketplace.catalog.moderation.banned_word_matcher import BANNED_CATEGORIES, BannedWords
from marketplace.kernel.contact_detection import ContactKind, detect_contacts
from marketplace.kernel.money import format_naira

TITLE_LENGTHS = range(3, 141)
MAX_DESCRIPTION_LENGTH = 5_000
MIN_PRICE_MINOR = 100
MAX_PRICE_MINOR = 10_000_000_000
MAX_QUANTITY = 100_000
MAX_IMAGES = 8
MAX_TAGS = 10
MAX_TAG_LENGTH = 30
CONDITIONS = ("new", "like_new", "good", "fair")

_MIN_TITLE_LETTERS = 2  # "TV" describes a product; "12345" or "!!!" does not
_FORBIDDEN_RUN_LENGTH = 6

# A price is unusual beyond this multiple of the category's median, or below its reciprocal. The category needs enough
# listings. Where prices vary widely, the limit is four times the spread instead. The spread is the median of the
# distances from the median, on a logarithmic scale.
UNUSUAL_PRICE_FACTOR = 20
MIN_COMPARABLE_PRICES = 20
MAX_COMPARABLE_PRICES = 1_000
_MAX_DEVIATIONS = 4
_MAD_TO_STANDARD_DEVIATION = 1.4826  # converts a median absolute deviation to a standard deviation

_CONTACT_TEXTS = {
    "title": texts.CONTACT_DETAILS_IN_TITLE,
    "description": texts.CONTACT_DETAILS_IN_DESCRIPTION,
    "tags": texts.CONTACT_DETAILS_IN_TAGS,
}


@dataclass(frozen=True, slots=True)
class ListingContent:
    """The screened content of a listing. The price is in kobo."""

    title: str
    description: str
    price_minor: int
    condition: str
    tags: list[str]
    image_count: int


def find_rule_violations(
    content: ListingContent, banned_words: BannedWords, comparable_prices_minor: Sequence[int]
) -> list[str]:
    """Find reasons against publishing a listing, as sentences for the vendor.

    Each sentence says how to fix the violation. No sentence repeats contact details.

    :param content: the stored content; listings created outside the API obey the same rules
    :param comparable_prices_minor: prices of other listings in the category, in kobo
    :return: empty if the listing can be published
    """
    return [
        *_format_violations(content),
        *_banned_term_violations(content, banned_words),
        *_contact_violations(content),
        *_unusual_price_violations(content.price_minor, comparable_prices_minor),
    ]


def _format_violations(content: ListingContent) -> list[str]:
    title_checks = (
        (
            len(content.title) in TITLE_LENGTHS,
            texts.TITLE_LENGTH.format(minimum=TITLE_LENGTHS[0], maximum=TITLE_LENGTHS[-1]),
        ),
        (
            sum(character.isalpha() for character in content.title) >= _MIN_TITLE_LETTERS,
            texts.TITLE_WITHOUT_WORDS,
        ),
        (
            not _has_repeated_character(content.title),
            texts.TITLE_REPEATS_LETTER.format(length=_FORBIDDEN_RUN_LENGTH),
        ),
    )
    other_checks = (
        (
            len(content.description) <= MAX_DESCRIPTION_LENGTH,
            texts.DESCRIPTION_TOO_LONG.format(maximum=MAX_DESCRIPTION_LENGTH),
        ),
        (
            MIN_PRICE_MINOR <= content.price_minor <= MAX_PRICE_MINOR,
            texts.PRICE_OUT_OF_RANGE.format(
                minimum=format_naira(MIN_PRICE_MINOR), maximum=format_naira(MAX_PRICE_MINOR)
            ),
        ),
        (content.condition in CONDITIONS, texts.CONDITION_UNKNOWN.format(conditions=", ".join(CONDITIONS))),
        (
            len(content.tags) <= MAX_TAGS and all(len(tag) <= MAX_TAG_LENGTH for tag in content.tags),
            texts.TOO_MANY_TAGS.format(tags=MAX_TAGS, characters=MAX_TAG_LENGTH),
        ),
        (content.image_count <= MAX_IMAGES, texts.TOO_MANY_IMAGES.format(maximum=MAX_IMAGES)),
    )
    # Report only the first problem of the title.
    title_reasons = [reason for passed, reason in title_checks if not passed]
    return title_reasons[:1] + [reason for passed, reason in other_checks if not passed]


def _has_repeated_character(text: str) -> bool:
    folded = text.casefold()
    return any(
        character.isalpha() and character * _FORBIDDEN_RUN_LENGTH in folded
        for character in dict.fromkeys(folded)
    )


def _banned_term_violations(content: ListingContent, banned_words: BannedWords) -> list[str]:
    terms = {
        term.term: term
        for text in (content.title, content.description, " | ".join(content.tags))
        for term in banned_words.find_phrases(text)
    }
    return [
        texts.BANNED_TERM.format(term=term.term, category=BANNED_CATEGORIES[term.category])
        for term in terms.values()
    ]


def _contact_violations(content: ListingContent) -> list[str]:
    # Tags are read as a single text, because a number may be split over several tags.
    places = {
        "title": content.title,
        "description": content.description,
        "tags": " ".join(content.tags),
    }
    sentences = []
    reported_kinds: frozenset[ContactKind] = frozenset()
    for place, text in places.items():
        kinds = detect_contacts(text)
        if kinds:
            sentences.append(_CONTACT_TEXTS[place].format(contact_details=_join_names(kinds)))
            reported_kinds |= kinds
    # Readers join contact details that are split over title, description and tags, so check all of them together.
    kinds = detect_contacts("\n".join(places.values())) - reported_kinds
    if kinds:
        sentences.append(texts.CONTACT_DETAILS_ACROSS_FIELDS.format(contact_details=_join_names(kinds)))
    return sentences


def _join_names(kinds: frozenset[ContactKind]) -> str:
    names = [kind.value for kind in ContactKind if kind in kinds]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _unusual_price_violations(price_minor: int, comparable_prices_minor: Sequence[int]) -> list[str]:
    """Compare a price with others on a logarithmic scale, so that double and half are equally far."""
    if len(comparable_prices_minor) < MIN_COMPARABLE_PRICES:
        return []
    logarithms = [math.log(price) for price in comparable_prices_minor]
    usual = median(logarithms)
    spread = median(abs(logarithm - usual) for logarithm in logarithms) * _MAD_TO_STANDARD_DEVIATION
    distance = math.log(price_minor) - usual
    if abs(distance) <= max(math.log(UNUSUAL_PRICE_FACTOR), _MAX_DEVIATIONS * spread):
        return []
    return [texts.PRICE_FAR_ABOVE_USUAL if distance > 0 else texts.PRICE_FAR_BELOW_USUAL]
