"""Protection of personal data before a text is sent to the language model's provider."""

import re

from marketplace.kernel.redaction import MARKER, redact_text

# Six digits can be a delivery PIN. Numbers of orders, tickets and disputes have a prefix.
_PIN = re.compile(r"(?<![\w-])\d{3}[ -]?\d{3}(?![\w-])")


def protect(text: str) -> str:
    """Replace contact details, account numbers, secrets and possible PINs in a text."""
    return _PIN.sub(MARKER, redact_text(text))
