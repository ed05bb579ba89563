"""The rules that a listing is screened by. Nothing is read here: what they are held against is passed in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from marketplace.catalog.moderation.banned_word_matcher import BANNED_CATEGORIES, BannedWords
from marketplace.kernel.contact_detection import ContactKind, detect_contacts

TITLE_LENGTHS = range(3, 141)
MAX_DESCRIPTION_LENGTH = 5_000
MIN_PRICE_MINOR = 100
MAX_PRICE_MINOR = 10_000_000_000
MAX_QUANTITY = 100_000
MAX_IMAGES = 8
MAX_TAGS = 10
MAX_TAG_LENGTH = 30
CONDITIONS = ("new", "like_new", "good", "fair")

_MIN_TITLE_LETTERS = 2  # "TV" says what is sold; "12345" or "!!!" does not
_FORBIDDEN_RUN_LENGTH = 6

# A price is doubtful beyond this multiple of what is usual in the category, or below its reciprocal, if there
# are listings enough to tell; and where the category's prices lie far apart by nature, beyond four times their
# own spread (the median of the distances from the median, on a scale of ratios).
UNUSUAL_PRICE_FACTOR = 20
MIN_COMPARABLE_PRICES = 20
MAX_COMPARABLE_PRICES = 1_000
_MAX_DEVIATIONS = 4
_MAD_TO_STANDARD_DEVIATION = 1.4826  # what a median of distances is multiplied by to be a standard deviation


@dataclass(frozen=True, slots=True)
class ListingContent:
    """What is screened of a listing. The price is kobo."""

    title: str
    description: str
    price_minor: int
    condition: str
    tags: list[str]
    image_count: int


def find_rule_violations(
    content: ListingContent, banned_words: BannedWords, comparable_prices_minor: Sequence[int]
) -> list[str]:
    """Name what speaks against showing a listing, in sentences for its vendor.

    Each says what to change; none repeats contact details.

    :param content: as it is stored; listings that came in otherwise than by the API are held to the same
    :param comparable_prices_minor: prices of other listings in its category, in kobo
    :return: none if the listing is fit to be published
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
            f"The title must have {TITLE_LENGTHS[0]} to {TITLE_LENGTHS[-1]} characters.",
        ),
        (
            sum(character.isalpha() for character in content.title) >= _MIN_TITLE_LETTERS,
            "The title must say in words what is sold.",
        ),
        (not _has_repeated_character(content.title), "The title repeats one character."),
    )
    other_checks = (
        (
            len(content.description) <= MAX_DESCRIPTION_LENGTH,
            f"The description has more than {MAX_DESCRIPTION_LENGTH} characters.",
        ),
        (
            MIN_PRICE_MINOR <= content.price_minor <= MAX_PRICE_MINOR,
            f"The price must be from {MIN_PRICE_MINOR} to {MAX_PRICE_MINOR} kobo.",
        ),
        (content.condition in CONDITIONS, "The condition is not one that is known."),
        (
            len(content.tags) <= MAX_TAGS and all(len(tag) <= MAX_TAG_LENGTH for tag in content.tags),
            f"There must be at most {MAX_TAGS} tags of at most {MAX_TAG_LENGTH} characters.",
        ),
        (content.image_count <= MAX_IMAGES, f"There must be at most {MAX_IMAGES} pictures."),
    )
    # One sentence about the title is enough: the first.
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
        f"\u201c{term.term}\u201d stands for {BANNED_CATEGORIES[term.category]}, which may not be offered here."
        " If that is not what you offer, say it in other words."
        for term in terms.values()
    ]


def _contact_violations(content: ListingContent) -> list[str]:
    # Tags are read as one text: a number may be cut up over them.
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
            verb = "hold" if place == "tags" else "holds"
            sentences.append(
                f"The {place} {verb} {_join_names(kinds)}. Take that out: buyers write to you in the marketplace."
            )
            reported_kinds |= kinds
    # What is cut up over title, description and tags is read by people in one go, so here too.
    kinds = detect_contacts("\n".join(places.values())) - reported_kinds
    if kinds:
        sentences.append(
            f"Read one after the other, title, description and tags hold {_join_names(kinds)}. Take that out: buyers"
            " write to you in the marketplace."
        )
    return sentences


def _join_names(kinds: frozenset[ContactKind]) -> str:
    names = [kind.value for kind in ContactKind if kind in kinds]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _unusual_price_violations(price_minor: int, comparable_prices_minor: Sequence[int]) -> list[str]:
    """Hold a price against others on a scale of ratios, so that twice and half are equally far."""
    if len(comparable_prices_minor) < MIN_COMPARABLE_PRICES:
        return []
    logarithms = [math.log(price) for price in comparable_prices_minor]
    usual = median(logarithms)
    spread = median(abs(logarithm - usual) for logarithm in logarithms) * _MAD_TO_STANDARD_DEVIATION
    distance = math.log(price_minor) - usual
    if abs(distance) <= max(math.log(UNUSUAL_PRICE_FACTOR), _MAX_DEVIATIONS * spread):
        return []
    side, slip = ("above", "a zero too many") if distance > 0 else ("below", "a zero too few")
    return [
        f"The price is far {side} what is usual in this category. Check the category, and the price for {slip}."
    ]
