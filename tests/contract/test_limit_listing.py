"""The commands of Flask-Limiter: the listed limits compared with the rows of the specification."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask_limiter.commands import cli
from limits import parse

from blueprints.areas import AREAS, contracts
from blueprints.http.application import build_app
from blueprints.http.contract import RateLimitTier
from marketplace.services import Services
from tests.contract.specification import ROWS
from tests.contract.test_route_contracts import key_of
from tests.support.probes import changed, from_address, serve, unique_address

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


def invoke(services: Services, *arguments: str) -> str:
    """Run a command of Flask-Limiter on an application of this process."""
    app = build_app(changed(services, rate_limit_scale=1), AREAS)
    result = app.test_cli_runner().invoke(cli, arguments, env={"COLUMNS": "240"}, catch_exceptions=False)
    return result.output


@pytest.fixture(scope="module")
def listed(environment: dict[str, str]) -> dict[str, list[str]]:
    """The lines that the deployed application lists, by endpoint."""
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "limiter", "limits"]
    # The width keeps each limit on one line.
    variables = {**os.environ, **environment, "RATE_LIMIT_SCALE": "1", "COLUMNS": "240"}
    ended = subprocess.run(
        command, env=variables, cwd=PROJECT, text=True, capture_output=True, check=False, timeout=WAIT_SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    return dict(endpoints_of(ended.stdout))


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


def test_configuration_names_the_shared_cache(services: Services) -> None:
    shown = invoke(services, "config")
    for word in ("marketplace-cache://", "CacheStorage", "WindowWithContent", "OK"):
        assert word in shown
    assert re.search(r"HEADERS_ENABLED\s*│\s*False", shown)


def test_command_shows_and_clears_window_of_a_caller(services: Services) -> None:
    client, address = serve(services, rate_limit_scale=1), unique_address()
    for _ in range(2):
        client.get("/errors/auth-forbidden", **from_address(address))
    of_caller = ("--endpoint", "error_page", "--key", address)
    shown = invoke(services, "limits", *of_caller)
    assert "Pass (58 out of 60 remaining)" in shown
    assert "Pass (300 out of 300 remaining)" in shown
    assert invoke(services, "clear", "-y", *of_caller).count("Cleared") == 3
    assert "Pass (60 out of 60 remaining)" in invoke(services, "limits", *of_caller)
