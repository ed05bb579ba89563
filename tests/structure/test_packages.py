"""Packages of the code base: size, import direction, class names, and the map in the documentation."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGES = ("blueprints", "commands", "marketplace", "sandbox", "tasks")
MAX_MODULES = 16
# The HTTP edge and the command line each have a single concern. The kernel has 18 modules and a texts module.
MAX_MODULES_OF = {"blueprints/http": 25, "commands": 24, "marketplace/kernel": 24}


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((PROJECT / package).rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, known: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= submodules or ({node.module} & known)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
    return found


def test_package_has_a_limited_number_of_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            counts[path.parent.relative_to(PROJECT).as_posix()] += 1

    # The sandbox exists to run on a single machine. The sandbox gateway implements a provider's complete API.
    crowded = {
        folder: count
        for folder, count in counts.items()
        if count > MAX_MODULES_OF.get(folder, MAX_MODULES) and not folder.startswith("sandbox")
    }

    assert crowded == {}


def test_modules_have_no_import_cycle() -> None:
    known = {dotted(path) for path in modules()}
    graph = {dotted(path): imported_modules(path, known) - {dotted(path)} for path in modules()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


def test_class_names_are_unique_in_the_domain() -> None:
    places = defaultdict(list)
    for path in modules():
        if path.is_relative_to(PROJECT / "marketplace"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(dotted(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_architecture_map_lists_every_package() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    map_of_packages = text[text.index("## The map") : text.index("## Follow one payment")]
    packages = {
        path.name
        for path in (PROJECT / "marketplace").iterdir()
        if path.is_dir() and (path / "__init__.py").exists()
    }

    assert {room for room in packages if f"`{room}/`" not in map_of_packages} == set()


def test_architecture_walk_names_existing_files() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = text[text.index("## Follow one payment") : text.index("## Follow a request")]
    named = {part for part in walk.split("`") if part.endswith(".py") and "/" in part}

    missing = {
        name for name in named if not any((PROJECT / base / name).exists() for base in ("", "marketplace"))
    }

    assert named
    assert missing == set()
