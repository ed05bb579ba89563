"""Folding of texts: what people read as the same letters and digits becomes the same characters."""

import unicodedata

# Letters of other scripts that look like Latin ones, as far as they stay themselves under NFKD.
_LOOKALIKES = str.maketrans(
    {
        **dict(zip("аеорсхуіѕјԁԛԝһкмнтв", "aeopcxyisjdqwhkmhtb", strict=True)),
        **dict(zip("αεικνορτυχω", "aeikvoptuxw", strict=True)),
        **dict(zip("ɡɩıøłđð", "giioldd", strict=True)),
        "æ": "ae",
        "œ": "oe",
    }
)


def normalize_text(text: str) -> str:
    """Write a text in lower case, without accents, in Latin letters and ASCII digits.

    Characters of other scripts that look like a letter become that letter; full-width, circled and other
    scripts' digits become digits; what can't be seen is left out. Spaces and line breaks stay where they are.

    :param text: as somebody wrote it
    :return: for comparing, not for showing: it may be longer or shorter
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    kept = []
    for character in decomposed:
        if character.isascii():
            kept.append(character)
        # Marks and format characters are not seen.
        elif unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            digit = unicodedata.digit(character, None)
            kept.append(character if digit is None else str(digit))
    return "".join(kept).translate(_LOOKALIKES)
