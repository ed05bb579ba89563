"""Requirements of setup.cfg: every imported package is listed directly."""

import ast
import configparser
import importlib.metadata
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SETUP = configparser.ConfigParser()
SETUP.read(PROJECT / "setup.cfg", encoding="utf-8")
PRODUCTION = (
    "blueprints",
    "commands",
    "marketplace",
    "migrations",
    "sandbox",
    "tasks",
    "wsgi.py",
    "gunicorn.conf.py",
)
DEVELOPMENT = ("bench", "tests")
OWN = {Path(place).stem for place in PRODUCTION + DEVELOPMENT}
NOT_INSTALLED = {"_typeshed": "a module of type checkers alone"}


def normalize(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def required_distributions(text: str) -> set[str]:
    return {normalize(re.split(r"[\[<>=!~; ]", line)[0]) for line in text.split("\n") if line}


def imported_names(places: Iterable[str]) -> set[str]:
    names = set()
    for place in places:
        path = PROJECT / place
        for module in [path] if path.is_file() else path.rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.partition(".")[0])
    return names - OWN - sys.stdlib_module_names - NOT_INSTALLED.keys()


@pytest.mark.parametrize(
    ("places", "extras"),
    [(PRODUCTION, ()), (DEVELOPMENT, ("development", "embedded"))],
    ids=["run", "development"],
)
def test_imported_packages_are_direct_requirements(places: tuple[str, ...], extras: tuple[str, ...]) -> None:
    required = required_distributions(SETUP["options"]["install_requires"])
    for extra in extras:
        required |= required_distributions(SETUP["options.extras_require"][extra])
    distributions = importlib.metadata.packages_distributions()
    imported = imported_names(places)
    assert len(imported) > 10
    missing = {
        name
        for name in imported
        if not required & {normalize(found) for found in distributions.get(name, ())}
    }
    assert not missing
