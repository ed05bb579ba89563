"""Normal form of responses: values that vary between runs become placeholders, all others stay."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from typing import Any

TEXT = "<text>"
# Texts for people: a new wording does not change the interface.
_TEXT_FIELDS = frozenset(
    {"detail", "description", "message", "meaning", "explanation", "suggestion", "suggestedAction", "firstStep", "purpose"}
)  # fmt: skip
_CURSOR_FIELDS = frozenset({"next_cursor", "cursor"})
_CODE_FIELDS = {"deliveryPin": "<pin>", "accessCode": "<code>", "referralCode": "<code>"}
# These figures depend on the machine, not on the script.
_FIGURES = frozenset(
    {"redisMemoryUsedBytes", "completed", "waiting", "active", "connectedWorkers", "latencyMs", "ageSeconds"}
)
# Times and counts of periodic runs depend on the clock, not on the script.
_VARYING = frozenset(
    {"lastFinishedAt", "lastDurationMilliseconds", "lastOutcome", "lastResult", "runs", "nextRunAt",
     "runningSince", "runningOn"}
)  # fmt: skip
_VARYING_COLUMNS = frozenset(
    {"Next run", "Last run", "Took", "Outcome", "Now", "Worker", "Host", "Process", "Current work", "Since", "Started",
     "Completed", "Later", "Waiting", "Active", "Oldest due"}
)  # fmt: skip
_TEXT_COLUMNS = frozenset({"Purpose"})

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Ids of the demo data are equal in each fresh stack, so recordings keep these ids.
_SEEDED = re.compile(r"000[0-9a-f]{5}-")
_REFERENCE = re.compile(r"\b(checkout|payout)-[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_EVENT = re.compile(r"\b((?:charge|transfer|refund)[a-z.]*):\d+\b")
_HEX = re.compile(r"\b[0-9a-f]{32,128}\b")
_CODE = re.compile(r"\b(TRF|RCP|ACC|PRF|CUS|AUTH)_(?=\w*[0-9a-z])[0-9A-Za-z]{6,}\b")
_SECONDS = re.compile(r"\b\d+\.\d+ ?(s|ms|MB)\b")
_ACCESS_KEY = re.compile(r"\b[0-9A-F]{20}\b")
# Virtual accounts that the sandbox opens for transfers to the platform.
_OPENED_ACCOUNT = re.compile(r"^99\d{8}$")
_PAGE = re.compile(r"/pay/[a-z0-9]{10,}\b")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")

_KEPT_HEADERS = (
    "content-type", "cache-control", "x-cache-lookup", "www-authenticate", "allow", "location",
    "content-disposition", "ratelimit-limit", "access-control-allow-origin", "access-control-allow-methods",
    "access-control-allow-headers", "access-control-max-age", "access-control-expose-headers", "vary",
    "content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy", "deprecation",
)  # fmt: skip
_LISTS = frozenset({"allow", "vary", "access-control-allow-methods", "access-control-allow-headers"})
_NOTED_HEADERS = ("ratelimit-remaining", "ratelimit-reset", "retry-after", "etag", "x-request-id")


class NormalForm:
    """Convert responses to the normal form. An id gets the same placeholder at every place."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        """Start without known ids.

        :param addresses: placeholders by address or directory of this stack
        """
        self._addresses = sorted(addresses.items(), key=lambda item: -len(item[0]))
        self._known: dict[str, str] = {}

    def learn(self, value: object, name: str) -> None:
        """Name an id that no recorded response contains, or that needs a better name."""
        if isinstance(value, str) and value not in self._known:
            self._known[value] = f"<{name}>"

    def headers(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Select the headers that clients depend on: some with the value, others only by presence."""
        low = {name.lower(): value for name, value in given.items()}
        kept: dict[str, Any] = {}
        for name in _KEPT_HEADERS:
            if name in low:
                value = low[name]
                if name in _LISTS:
                    value = ", ".join(sorted(part.strip() for part in value.split(",")))
                kept[name] = self.text(value, name)
        for name in _NOTED_HEADERS:
            if name in low:
                kept[name] = "<there>"
        return kept

    def body(self, content: bytes, content_type: str, where: str) -> Any:
        """Return the normal form of a body, by content type."""
        kind = content_type.partition(";")[0].strip()
        if not content:
            return None
        if kind in ("application/json", "application/problem+json"):
            return self.json(json.loads(content), where)
        if kind == "text/csv":
            rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
            return {
                "csv": rows[0] if rows else [],
                "rows": len(rows) - 1,
                "cells": sorted({len(row) for row in rows}),
            }
        if kind == "text/html":
            shown = content.decode(errors="replace")
            title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL)
            links = re.findall(r'(?:href|src|data-url)="([^"#]*)"', shown)
            return {
                "html": title.group(1).strip() if title else None,
                "links": sorted({self.text(link, where) for link in links}),
            }
        if kind == "application/pdf":
            pages = len(re.findall(rb"/Type\s*/Page\b", content))
            return {"pdf": content[:5].decode(), "pages": pages, "ends": content.rstrip()[-5:].decode()}
        if kind.startswith("text/"):
            return {"text": self.text(content.decode(errors="replace"), where)}
        return {"bytes": hashlib.sha256(content).hexdigest()}

    def json(self, value: Any, where: str, field: str = "", parent: str = "") -> Any:
        """Return the normal form of a JSON value.

        :param where: the place of the value, which names ids seen here for the first time
        :param field: the name of the field with this value
        :param parent: the name of the enclosing field
        """
        if isinstance(value, dict):
            return {
                self.text(key, where): self.json(item, f"{where}.{key}", key, field)
                for key, item in value.items()
            }
        if isinstance(value, list):
            if field == "invalid_params" and all(isinstance(item, dict) and "name" in item for item in value):
                # The order of unknown parameters varies between processes.
                value = sorted(value, key=lambda item: str(item["name"]))
            return [self.json(item, f"{where}[{number}]", field, parent) for number, item in enumerate(value)]
        if isinstance(value, str) and field not in _VARYING:
            return self._string(value, where, field, parent)
        if field in _VARYING:
            return "<varies>"
        if field in _FIGURES and isinstance(value, int | float) and not isinstance(value, bool):
            return "<number>"
        return value

    def _string(self, value: str, where: str, field: str, parent: str) -> str:
        if field in _CURSOR_FIELDS:
            return "<cursor>"
        if field in _CODE_FIELDS:
            return _CODE_FIELDS[field]
        if field in ("requestId", "correlationId"):
            return "<uuid>"
        if field in _TEXT_FIELDS or (field == "reason" and parent == "invalid_params"):
            return TEXT if value else ""
        return self.text(value, where)

    def text(self, value: str, where: str) -> str:
        """Replace ids, references, times and addresses in a text by placeholders."""
        if value in self._known:
            return self._known[value]
        for address, name in self._addresses:
            value = value.replace(address, name)
        value = _ADDRESS.sub("127.0.0.1:<port>", value)
        value = _UUID.sub(lambda found: self._id(found[0], "id", where), value)
        value = _REFERENCE.sub(lambda found: self._id(found[0], f"{found[1]} reference", where), value)
        value = _EVENT.sub(r"<event \1>", value)
        value = _ACCESS_KEY.sub("<key>", value)
        value = _OPENED_ACCOUNT.sub("<account>", value)
        value = _PAGE.sub("/pay/<code>", value)
        value = _TIME.sub("<time>", value)
        value = _DATE.sub("<date>", value)
        value = _CODE.sub(r"<\1 code>", value)
        return _HEX.sub("<hex>", value)

    def lines(self, shown: str) -> list[str]:
        """Return the normal form of a command's output, line by line."""
        found, headings = [], list[str]()
        for line in shown.splitlines():
            cells = _SECONDS.sub(r"<number> \1", self.text(line, "command")).split("\t")
            headings = headings or cells
            if len(cells) > 1 and cells is not headings:
                cells = [_cell(heading, cell) for heading, cell in zip(headings, cells, strict=False)]
            found.append(re.sub(r" {2,}", "  ", "\t".join(cells)).rstrip(" "))
        return found

    def _id(self, value: str, kind: str, where: str) -> str:
        if _SEEDED.match(value):
            return value
        return self._known.setdefault(value, f"<{kind} of {where}>")


def _cell(heading: str, cell: str) -> str:
    if heading in _TEXT_COLUMNS:
        return TEXT
    return "<varies>" if heading in _VARYING_COLUMNS else cell
