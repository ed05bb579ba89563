"""Protection of personal data in texts to and from the language model."""

import re
import unicodedata
from typing import Any

from marketplace.kernel.redaction import MARKER, redact_text

# Six digits can be a delivery PIN. Numbers of orders, tickets and disputes have a prefix, prices a word beside them.
_PIN = re.compile(
    r"""(?<![\w-])
    (?P<price>(?:₦|\b(?:N|NGN|under|below|than|above|over|budget|pass|max|maximum)\b)\s{0,2})?
    \d{3}[ -]?\d{3}(?![\w-])
    (?P<unit>\s?(?:naira|ngn|bucks)\b)?""",
    re.IGNORECASE | re.VERBOSE,
)
# Markers of chat templates. Some local servers would read these as the beginning of another message.
_TEMPLATE_MARKERS = re.compile(
    r"<\|[^|<>]{0,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|<\uFF5C[^\uFF5C<>]{0,40}\uFF5C>",
    re.IGNORECASE,
)
_INVISIBLE = ("Cf", "Cc", "Co", "Cs", "Cn")
# Joiners within emoji and scripts stay.
_VISIBLE_FORMATS = "\u200c\u200d"
# Words at the end of a text that can still become a private value. A word of letters cannot.
_OPEN_END = re.compile(r"(?<!\S)(?:(?=\S*?[\d@+(:=_])\S++(?:\s++|\Z))++\Z")
# A text without these has no private value.
_HINT = re.compile(r"[\d@+:=_$]|bearer|basic|passphrase|pin|code|key|word|number", re.IGNORECASE)
_MAX_HELD_LENGTH = 400
_CONTEXT_LENGTH = 120


def protect(text: str) -> str:
    """Replace contact details, account numbers, secrets and possible PINs in a text."""
    return _PIN.sub(_hide_pin, redact_text(text))


def _hide_pin(match: re.Match[str]) -> str:
    return match[0] if match["price"] or match["unit"] else MARKER


def clean(text: str, *, max_length: int) -> str:
    """Prepare a text of a person for the language model.

    Invisible characters and markers of chat templates are removed, private values are replaced, and a long text is cut.
    """
    visible = "".join(
        character
        for character in text
        if character in "\n\t"
        or character in _VISIBLE_FORMATS
        or unicodedata.category(character) not in _INVISIBLE
    )
    protected = protect(_TEMPLATE_MARKERS.sub(" ", visible))
    return protected if len(protected) <= max_length else f"{protected[: max_length - 1].rstrip()}…"


def clean_data(value: Any, *, max_length: int) -> Any:
    """Apply ``clean`` to all texts of a JSON value. Ids, numbers and names of fields stay."""
    if isinstance(value, str):
        return clean(value, max_length=max_length)
    if isinstance(value, dict):
        return {name: clean_data(item, max_length=max_length) for name, item in value.items()}
    if isinstance(value, list):
        return [clean_data(item, max_length=max_length) for item in value]
    return value


class ProtectedText:
    """A text of the language model that arrives in pieces and leaves without private values.

    The end of the text waits while further pieces can still make a private value of it.
    """

    def __init__(self) -> None:
        self._context = ""
        self._held = ""

    def add(self, piece: str) -> str:
        """Add a piece, and return the text that is complete."""
        self._held += piece
        if len(self._held) > _MAX_HELD_LENGTH:
            return self.finish()
        match = _OPEN_END.search(self._held)
        cut = match.start() if match else len(self._held)
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._release(ready)

    def finish(self) -> str:
        """Return the rest of the text."""
        ready, self._held = self._held, ""
        return self._release(ready)

    def _release(self, ready: str) -> str:
        if not ready:
            return ""
        whole = self._context + ready
        if not _HINT.search(whole):
            self._context = whole[-_CONTEXT_LENGTH:]
            return ready
        protected = protect(whole)
        if protected.startswith(self._context):
            released = protected[len(self._context) :]
        else:
            # A private value began in the text that has left, for example with its name.
            released = f"{MARKER}{_common_end(protected, protect(ready))}"
        self._context = (self._context + released)[-_CONTEXT_LENGTH:]
        return released


def _common_end(first: str, second: str) -> str:
    length = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        length += 1
    return second[len(second) - length :]
