"""The command ``flask limiter limits`` compared with the rows of the specification."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from limits import parse

from blueprints.areas import contracts
from blueprints.http.contract import RateLimitTier
from tests.contract.specification import ROWS
from tests.contract.test_route_contracts import key_of

PROJECT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0
OF_TIERS = {
    "global": [
        (RateLimitTier.ANONYMOUS.value, "is_signed_in"),
        (RateLimitTier.BUYER.value, "is_no_buyer"),
        (RateLimitTier.MERCHANT.value, "is_buyer_or_anonymous"),
    ],
    "vendor": [
        (RateLimitTier.ANONYMOUS.value, "is_signed_in"),
        (RateLimitTier.MERCHANT.value, "is_anonymous"),
    ],
    "unlimited": [],
}


def limiter_command(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "limiter", *arguments]
    # The width keeps each limit on one line.
    variables = {**os.environ, **environment, "RATE_LIMIT_SCALE": "1", "COLUMNS": "240"}
    ended = subprocess.run(
        command, env=variables, cwd=PROJECT, text=True, capture_output=True, check=False, timeout=WAIT_SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def listed(environment: dict[str, str]) -> dict[str, list[str]]:
    """The listed lines by endpoint."""
    return dict(endpoints_of(limiter_command(environment, "limits")))


def endpoints_of(output: str) -> Iterator[tuple[str, list[str]]]:
    lines: list[str] = []
    for line in output.splitlines():
        if endpoint := re.fullmatch(r"[├└]── ([\w.-]+): /\S*\s*", line):
            lines = []
            yield endpoint[1], lines
        elif limit := re.fullmatch(r"[│ ]   [├└]── (.+?)\s*", line):
            lines.append(limit[1])


def test_command_lists_true_limit_of_each_route(listed: dict[str, list[str]]) -> None:
    rows = {key_of(row): row for row in ROWS if row.built}
    assert len(contracts()) > 100
    for contract in contracts():
        row = rows[key_of(contract)]
        expected = OF_TIERS.get(row.limit, [(row.limit, "")])
        found = [
            re.fullmatch(r"(.+?)(?: \{exempt_when: \S+\.(\w+)\(\)\})?", line)
            for line in listed[contract.name]
        ]
        if not expected:
            assert listed[contract.name] == ["Exempt"], contract.name
        else:
            assert [(parse(one[1]), one[2] or "") for one in found if one] == [
                (parse(quota), exemption) for quota, exemption in expected
            ], contract.name


def test_command_lists_views_without_contract(listed: dict[str, list[str]]) -> None:
    assert [line.partition(" {")[0] for line in listed["error_page"]] == [
        "60 per 1 minute",
        "300 per 1 minute",
        "600 per 1 minute",
    ]
    for view in ("openapi_document", "documentation_page", "documentation_asset"):
        assert listed[view] == ["Exempt"]


def test_configuration_names_the_shared_cache(environment: dict[str, str]) -> None:
    shown = limiter_command(environment, "config")
    for word in ("marketplace-cache://", "CacheStorage", "WindowWithContent", "OK"):
        assert word in shown
    assert re.search(r"HEADERS_ENABLED\s*│\s*False", shown)
