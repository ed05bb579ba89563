"""Name matching of bank accounts. Banks report names in any order and shorten long names."""

import re

from marketplace.kernel.text_normalization import normalize_text

_WORD = re.compile(r"[a-z0-9]{2,}")
# Common words that do not distinguish names.
_COMMON_WORDS = frozenset(
    {
        *("and", "the", "of", "co", "ltd", "limited", "plc", "nig", "nigeria", "global", "company"),
        *("enterprise", "enterprises", "venture", "ventures", "services"),
        *("store", "stores", "shop", "shops", "mr", "mrs", "ms", "dr"),
    }
)
# Two shared words are unlikely to be a coincidence. A name of a single word has to match with that word.
_SUFFICIENT_SHARED_WORDS = 2


def is_plausible_account_name(account_name: str, *expected_names: str | None) -> bool:
    """Return whether a bank account's name resembles an expected name.

    Case, accents and the order of words are ignored, and so are common words.

    :param account_name: as reported by the bank
    :param expected_names: names of the store and the store's owner; none for a missing name
    """
    account_words = _extract_significant_words(account_name)
    return any(
        words
        and account_words
        and len(words & account_words) >= min(_SUFFICIENT_SHARED_WORDS, len(words), len(account_words))
        for words in (_extract_significant_words(name or "") for name in expected_names)
    )


def _extract_significant_words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalize_text(name))) - _COMMON_WORDS
