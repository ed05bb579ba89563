"""Whether the name of a bank account may be the payee's: banks write names in any order, and cut them short."""

import re

from marketplace.kernel.text_normalization import normalize_text

_WORD = re.compile(r"[a-z0-9]{2,}")
# They stand in many names, and tell nobody from anybody.
_COMMON_WORDS = frozenset(
    {
        *("and", "the", "of", "co", "ltd", "limited", "plc", "nig", "nigeria", "global", "company"),
        *("enterprise", "enterprises", "venture", "ventures", "services"),
        *("store", "stores", "shop", "shops", "mr", "mrs", "ms", "dr"),
    }
)
# Two words in common are no accident; a name of one word has no more to give.
_SUFFICIENT_SHARED_WORDS = 2


def is_plausible_account_name(account_name: str, *expected_names: str | None) -> bool:
    """Tell whether a bank account's name is like one of somebody's.

    Letters count without case and accents, in any order; words that stand in many names do not count.

    :param account_name: as the bank says
    :param expected_names: of the store and of who runs it; none that there is not
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
