"""Documentation agrees with the code."""

import json
import re
import runpy
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import pytest

from commands.main import main as marketplace
from marketplace.infra.settings import Settings, variable_name
from marketplace.orders.pricing import Fees, OrderLine, price_order, split_escrow
from sandbox.providers.gateway.charges import fee_of

PROJECT = Path(__file__).parents[2]
GENERATOR: dict[str, Any] = runpy.run_path(str(PROJECT / "docs" / "generate.py"))
DOCUMENTS: list[Path] = GENERATOR["documents"]()

PART: re.Pattern[str] = GENERATOR["PART"]
SCREEN_LINES = 50
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"[a-z]+:")


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings in GitHub's format."""
    headings = HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code_of(text: str) -> Iterator[str]:
    """Yield the lines of code blocks and the inline code spans."""
    for block in FENCE.findall(text):
        yield from block.splitlines()[1:-1]
    yield from re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def postings_example(name: str) -> list[tuple[str, int, int]]:
    """Read a table of postings: account, debit and credit in kobo."""
    text = (PROJECT / "docs" / "ledger.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- checked:{name} -->\n(.*?)<!-- /checked -->", text, re.DOTALL)
    assert found is not None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()[2:]]
    minor = [[int(cell.replace(",", "") or 0) for cell in row[1:]] for row in rows]
    return [(row[0], debit, credit) for row, (debit, credit) in zip(rows, minor, strict=True)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_generated_parts_match_the_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == GENERATOR["generated"](text), "run: .venv/bin/python docs/generate.py"


def test_every_generated_part_is_used_in_a_document() -> None:
    shown = {found[1] for path in DOCUMENTS for found in GENERATOR["PART"].findall(path.read_text("utf-8"))}
    assert shown == set(GENERATOR["PARTS"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_have_existing_targets(path: Path) -> None:
    for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if ADDRESS.match(link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert target.is_relative_to(PROJECT), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_setting_is_documented() -> None:
    text = (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8")
    for item in fields(Settings):
        assert f"| `{variable_name(item.name)}` | {item.metadata['doc']}" in text


def test_readme_lists_the_commands_of_ci() -> None:
    run = (PROJECT / ".ci" / "run").read_text(encoding="utf-8")
    commands = re.findall(r"^make \w+$", run, re.MULTILINE)
    assert commands == ["make check", "make test"]
    lines = [line.partition("#")[0].strip() for line in code_of((PROJECT / "README.md").read_text("utf-8"))]
    for command in commands:
        assert command in lines


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documented_commands_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE))
    context = click.Context(marketplace)
    for line in code_of(path.read_text(encoding="utf-8")):
        for target in re.findall(r"(?<!\S)make ([a-z-]+)", line):
            assert target in targets, line
        for group, command in re.findall(r"(?:^|[\s/(])marketplace ([a-z]+)(?: ([a-z][a-z-]+))?", line):
            found = marketplace.get_command(context, group)
            assert found is not None, line
            if command and isinstance(found, click.Group):
                assert command in found.commands, line


def test_every_page_is_listed_in_the_index() -> None:
    folder = PROJECT / "docs"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= listed


def test_tried_gateway_clients_are_documented_with_their_versions() -> None:
    page = (PROJECT / "docs" / "sandbox-gateway.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\S+)` \([^)]+\) \| (\S+) \|", page, re.MULTILINE))
    locked = (PROJECT / "requirements" / "development.txt").read_text(encoding="utf-8")
    python = set(re.findall(r"^((?:py)?paystack\S*)==(\S+)", locked, re.MULTILINE))
    manifest = PROJECT / "tests" / "contract" / "node_clients" / "package.json"
    node = set(json.loads(manifest.read_text(encoding="utf-8"))["dependencies"].items())
    assert documented == python | node


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_pages_fit_three_screens(path: Path) -> None:
    written = PART.sub("", path.read_text(encoding="utf-8"))
    assert len(written.splitlines()) <= 3 * SCREEN_LINES


def test_every_decision_is_listed() -> None:
    folder = PROJECT / "docs" / "decisions"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in folder.glob("0*.md")}


def test_pictures_are_well_formed() -> None:
    for path in (PROJECT / "docs").glob("*.svg"):
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - files of this repository


@pytest.mark.parametrize("name", ["payment", "release", "quarantine"])
def test_examples_of_postings_balance(name: str) -> None:
    rows = postings_example(name)
    assert sum(debit for _, debit, _ in rows) == sum(credit for _, _, credit in rows) > 0
    assert all((debit > 0) != (credit > 0) for _, debit, credit in rows)


def test_example_of_a_purchase_matches_computed_amounts() -> None:
    fees = Fees(commission_bps=500, service_fee_minor=10_000, delivery_fee_minor=50_000)
    line = OrderLine(170_000, 2, fees.commission_bps)
    price = price_order([line], fees=fees, is_delivery=True)
    share = split_escrow(price, commission_minor=line.commission_minor)
    assert ("escrow", 0, price.total_minor) in postings_example("payment")
    assert ("gateway_fees", fee_of(price.total_minor), 0) in postings_example("payment")
    assert ("gateway_fees", fee_of(300_000), 0) in postings_example("quarantine")
    assert postings_example("release") == [
        ("escrow", price.total_minor, 0),
        ("vendor_payable:vendor", 0, share.vendor_minor),
        ("platform_revenue", 0, share.platform_minor),
    ]
