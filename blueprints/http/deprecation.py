"""Deprecated routes: response headers, and a daily count of calls."""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from email.utils import format_datetime

from flask import request

from marketplace.kernel.signals import DEPRECATED_CALL, RECORDER

# Rule 5 of the section "Versioning" of the interface specification: at least six months.
MINIMUM_NOTICE = timedelta(days=184)
_PRODUCT = re.compile(r"[A-Za-z0-9._-]{1,40}(?:/[0-9A-Za-z._-]{1,20})?", re.ASCII)


@dataclass(frozen=True)
class Deprecation:
    """The announced end of a route.

    :ivar since: the day of the announcement
    :ivar sunset: the day from which the route may be missing, at least six months later
    :ivar guide: the URL or path of the page that explains the replacement
    """

    since: date
    sunset: date
    guide: str

    def __post_init__(self) -> None:
        """Check the notice.

        :raises ValueError: less than six months lie between the days
        """
        if self.sunset - self.since < MINIMUM_NOTICE:
            raise ValueError(f"the sunset {self.sunset} is less than six months after {self.since}")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of RFC 9745 and RFC 8594."""
        announced, end = (datetime.combine(day, time(), UTC) for day in (self.since, self.sunset))
        return {
            "Deprecation": f"@{int(announced.timestamp())}",
            "Sunset": format_datetime(end, usegmt=True),
            "Link": f'<{self.guide}>; rel="sunset"',
        }


def add_deprecation_headers(
    headers: MutableMapping[str, str], deprecation: Deprecation, *, route: str
) -> None:
    """Add the deprecation headers, and count the call by route and client product.

    :param headers: the headers of the response
    :param route: the method and the template of the path
    """
    headers.update(deprecation.headers)
    product = _PRODUCT.match(request.headers.get("User-Agent", ""))
    RECORDER.count(DEPRECATED_CALL, f"{route} {product[0] if product else 'unknown'}")
