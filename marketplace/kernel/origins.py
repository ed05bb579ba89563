"""Origins of browser pages (RFC 6454), such as ``https://shop.example``, and patterns for the ports of this machine."""

import re
from collections.abc import Iterable

_ORIGIN = re.compile(r"https?://[^\s/?#@A-Z*]+")
# A page of this machine can have any port. A wildcard for other hosts would trust programs of other people.
_ANY_LOCAL_PORT = re.compile(r"(https?://(?:localhost|127\.0\.0\.1|\[::1\])):\*")
_PORT = re.compile(r"(?::[0-9]{1,5})?")


def parse_origins(value: str) -> tuple[str, ...]:
    """Parse origins that commas or spaces separate. ``http://localhost:*`` means any port of this machine.

    :raises ValueError: a word is no origin
    """
    origins = tuple(word for word in re.split(r"[,\s]+", value) if word)
    # Browsers send origins in lower case without a path, so other values would never match.
    if not origins or not all(_ORIGIN.fullmatch(word) or _ANY_LOCAL_PORT.fullmatch(word) for word in origins):
        raise ValueError(
            "must be origins such as https://shop.example, in lower case, without paths,"
            " and with * only as the port of localhost or 127.0.0.1"
        )
    return origins


class AllowedOrigins:
    """A set of origins and patterns."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Prepare the set.

        :param origins: as parsed by ``parse_origins``
        """
        given = tuple(origins)
        self._hosts = tuple(match[1] for match in map(_ANY_LOCAL_PORT.fullmatch, given) if match)
        self._exact = frozenset(origin for origin in given if not _ANY_LOCAL_PORT.fullmatch(origin))

    def __bool__(self) -> bool:
        return bool(self._exact or self._hosts)

    def __contains__(self, origin: str) -> bool:
        return origin in self._exact or any(
            origin.startswith(host) and _PORT.fullmatch(origin, len(host)) for host in self._hosts
        )
