"""The screening of a listing by its fields alone: what must hold before the public sees it."""

from dataclasses import dataclass

TITLE_LENGTHS = range(3, 141)
MAX_DESCRIPTION_LENGTH = 5_000
MIN_PRICE_MINOR = 100
MAX_PRICE_MINOR = 10_000_000_000
MAX_QUANTITY = 100_000
MAX_IMAGES = 8
MAX_TAGS = 10
MAX_TAG_LENGTH = 30
CONDITIONS = ("new", "like_new", "good", "fair")

_LEAST_LETTERS = 2  # "TV" says what is sold; "12345" or "!!!" does not
_LONGEST_RUN = 6


@dataclass(frozen=True, slots=True)
class Content:
    """What is screened of a listing. The price is kobo."""

    title: str
    description: str
    price_minor: int
    condition: str
    tags: list[str]
    image_count: int


def reasons_to_reject(content: Content) -> list[str]:
    """This function will name what speaks against showing a listing, in sentences for its vendor.

    :param content: as it is stored; listings that came in otherwise than by the API are held to the same
    :return: none if the listing is fit to be published
    """
    reasons = []
    if len(content.title) not in TITLE_LENGTHS:
        reasons.append(f"The title must have {TITLE_LENGTHS[0]} to {TITLE_LENGTHS[-1]} characters.")
    elif sum(character.isalpha() for character in content.title) < _LEAST_LETTERS:
        reasons.append("The title must say in words what is sold.")
    elif _has_run(content.title):
        reasons.append("The title repeats one character.")
    if len(content.description) > MAX_DESCRIPTION_LENGTH:
        reasons.append(f"The description has more than {MAX_DESCRIPTION_LENGTH} characters.")
    if not MIN_PRICE_MINOR <= content.price_minor <= MAX_PRICE_MINOR:
        reasons.append(f"The price must be from {MIN_PRICE_MINOR} to {MAX_PRICE_MINOR} kobo.")
    if content.condition not in CONDITIONS:
        reasons.append("The condition is not one that is known.")
    if len(content.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_LENGTH for tag in content.tags):
        reasons.append(f"There must be at most {MAX_TAGS} tags of at most {MAX_TAG_LENGTH} characters.")
    if content.image_count > MAX_IMAGES:
        reasons.append(f"There must be at most {MAX_IMAGES} pictures.")
    return reasons


def _has_run(text: str) -> bool:
    folded = text.casefold()
    return any(
        character.isalpha() and character * _LONGEST_RUN in folded for character in dict.fromkeys(folded)
    )
