"""Normalisation of texts: look-alike letters and digits become the same characters."""

import unicodedata

# Letters of other scripts that look like Latin letters and stay unchanged under NFKD.
_LOOKALIKES = str.maketrans(
    {
        **dict(zip("аеорсхуіѕјԁԛԝһкмнтв", "aeopcxyisjdqwhkmhtb", strict=True)),
        **dict(zip("αεικνορτυχω", "aeikvoptuxw", strict=True)),
        **dict(zip("ɡɩıøłđðɗɓƙƴ", "giioldddbky", strict=True)),
        "æ": "ae",
        "œ": "oe",
    }
)


def normalize_text(text: str) -> str:
    """Convert a text to lower case without accents and look-alike characters, for comparison.

    Look-alike characters of other scripts become Latin letters. Full-width, circled and foreign digits become ASCII
    digits. Invisible characters are removed. Spaces and line breaks stay.

    :return: a text for comparison only; its length can differ
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    kept = []
    for character in decomposed:
        if character.isascii():
            kept.append(character)
        # Skip invisible characters: marks and format characters.
        elif unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            digit = unicodedata.digit(character, None)
            kept.append(character if digit is None else str(digit))
    return "".join(kept).translate(_LOOKALIKES)
