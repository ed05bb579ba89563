"""The rooms of the code base: their size, the direction of their imports, their names, and the map of them."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGES = ("blueprints", "commands", "marketplace", "sandbox", "tasks")
MAX_MODULES = 16
# The HTTP edge and the command line are one concern each. The kernel has 16 modules and its texts.
MAX_MODULES_OF = {"blueprints/http": 24, "commands": 24, "marketplace/kernel": 17}


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


def test_no_folder_holds_too_many_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            counts[path.parent.relative_to(PROJECT).as_posix()] += 1

    # The sandbox exists to run on one machine; its gateway speaks one provider's whole API.
    crowded = {
        folder: count
        for folder, count in counts.items()
        if count > MAX_MODULES_OF.get(folder, MAX_MODULES) and not folder.startswith("sandbox")
    }

    assert crowded == {}


def test_no_module_imports_itself_through_others() -> None:
    known = {dotted(path) for path in modules()}
    graph = {dotted(path): imported_modules(path, known) - {dotted(path)} for path in modules()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


def test_no_class_name_stands_twice_in_the_domain() -> None:
    places = defaultdict(list)
    for path in modules():
        if path.is_relative_to(PROJECT / "marketplace"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(dotted(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_map_names_every_room() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    map_of_rooms = text[text.index("## The map") : text.index("## Follow one payment")]
    rooms = {
        path.name
        for path in (PROJECT / "marketplace").iterdir()
        if path.is_dir() and (path / "__init__.py").exists()
    }

    assert {room for room in rooms if f"`{room}/`" not in map_of_rooms} == set()


def test_the_walk_names_files_that_exist() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = text[text.index("## Follow one payment") : text.index("## Follow a request")]
    named = {part for part in walk.split("`") if part.endswith(".py") and "/" in part}

    missing = {
        name for name in named if not any((PROJECT / base / name).exists() for base in ("", "marketplace"))
    }

    assert named
    assert missing == set()
