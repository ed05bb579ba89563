"""Texts are filled with exactly their placeholders: a missing value would fail a transaction that only notifies."""

import ast
import importlib
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FOLDERS = ("marketplace", "blueprints", "tasks", "commands")


def placeholders_of(text: str) -> set[str]:
    """Return the names of a text's placeholders."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@cache
def parse(path: Path) -> ast.Module:
    """Parse a module, each of whose nodes knows its parent."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    return tree


def list_modules() -> list[Path]:
    """List the Python modules of the service."""
    return [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*.py"))]


def list_texts_modules() -> dict[str, dict[str, object]]:
    """Return the constants of each texts module by the module's dotted name."""
    names = [
        ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for path in list_modules()
        if path.name == "texts.py"
    ]
    return {
        name: {key: value for key, value in vars(importlib.import_module(name)).items() if key.isupper()}
        for name in names
    }


def find_references() -> Iterator[tuple[str, str, str, ast.Attribute]]:
    """Yield place, texts module, constant and node of each reference ``texts.NAME``."""
    for path in list_modules():
        tree = parse(path)
        aliases = {
            alias.asname or alias.name: f"{node.module}.texts"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name == "texts"
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in aliases
            ):
                yield f"{path.relative_to(PROJECT)}:{node.lineno}", aliases[node.value.id], node.attr, node


def find_fault(text: object, reference: ast.Attribute) -> str | None:
    """Return why a reference uses a text wrongly, or None."""
    if not isinstance(text, str):
        return None
    wanted = placeholders_of(text)
    parent = reference.parent
    is_said = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "say"
    if is_said or (isinstance(parent, ast.Attribute) and parent.attr == "format"):
        call = parent if is_said else parent.parent
        given = {keyword.arg for keyword in call.keywords}
        # Values given as ``**values`` are not known here.
        if None not in given and given != wanted:
            return f"fills {sorted(given)}, the text has {sorted(wanted)}"
    elif wanted and isinstance(parent, ast.Call) and isinstance(parent.parent, ast.Raise):
        return f"does not fill {sorted(wanted)}"
    return None


def test_texts_are_filled_with_exactly_their_placeholders() -> None:
    modules = list_texts_modules()
    references = list(find_references())
    assert len(references) > 200
    faults = [
        f"{place}: {name} {fault}"
        for place, module, name, reference in references
        if name.isupper() and (fault := find_fault(modules[module][name], reference))
    ]
    assert not faults, "\n".join(faults)


def test_every_text_is_used() -> None:
    used = {(module, name) for _, module, name, _ in find_references()}
    for path in list_modules():
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.endswith("texts"):
                used |= {(node.module, alias.name) for alias in node.names}
            if path.name == "texts.py" and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add((module, node.id))
    unused = [
        f"{module}.{name}"
        for module, texts in list_texts_modules().items()
        for name in texts
        if (module, name) not in used
    ]
    assert not unused, "\n".join(unused)
