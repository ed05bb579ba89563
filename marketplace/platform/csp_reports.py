"""Reports of browsers about violations of the content security policy, kept as counts.

Browsers send two forms: ``report-uri`` of Content Security Policy 2, and the Reporting API. A report can name pages and
scripts of a person. Only the directive and the blocked origin are kept.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

MAX_REPORTS = 100
_DIRECTIVE = re.compile(r"[a-z-]{1,40}", re.ASCII)
_KEYWORD = re.compile(r"[a-z-]{1,40}", re.ASCII)
_HOST = re.compile(r"[a-z0-9.-]{1,100}", re.ASCII)


class UnknownReportError(ValueError):
    """The body has neither form of a report."""


def read_violations(body: Any) -> list[str]:
    """Read the violations of a body, each as the directive and the blocked origin.

    :param body: the JSON of either form
    :raises UnknownReportError: the body has neither form, or too many reports
    """
    if isinstance(body, dict):
        report = body.get("csp-report")
        if not isinstance(report, dict):
            raise UnknownReportError("a report has the member csp-report")
        return [_describe(report, "effective-directive", "violated-directive", "blocked-uri")]
    if not isinstance(body, list) or len(body) > MAX_REPORTS:
        raise UnknownReportError(f"a body is an object or a list of at most {MAX_REPORTS} reports")
    return list(_read_list(body))


def _read_list(reports: list[Any]) -> Iterator[str]:
    for report in reports:
        content = report.get("body") if isinstance(report, dict) else None
        if not isinstance(content, dict):
            raise UnknownReportError("each report of a list has the member body")
        # Browsers put reports of other kinds, such as deprecations, into the same list.
        if report.get("type") == "csp-violation":
            yield _describe(content, "effectiveDirective", "violatedDirective", "blockedURL")


def _describe(report: dict[str, Any], directive: str, older_directive: str, blocked: str) -> str:
    words = str(report.get(directive) or report.get(older_directive) or "").split()
    name = words[0] if words and _DIRECTIVE.fullmatch(words[0]) else "unknown"
    return f"{name} {_origin(report.get(blocked))}"


def _origin(blocked: Any) -> str:
    """Return the origin of a blocked URL, or the keyword, such as ``inline``."""
    text = blocked if isinstance(blocked, str) else ""
    if _KEYWORD.fullmatch(text):
        return text
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").lower()
    except ValueError:
        return "unknown"
    if _HOST.fullmatch(host) and parts.scheme in ("http", "https", "ws", "wss"):
        return f"{parts.scheme}://{host}"
    return parts.scheme if parts.scheme in ("data", "blob", "about") else "unknown"
