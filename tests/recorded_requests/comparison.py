"""Compare two recordings step by step."""

from collections.abc import Iterator
from typing import Any

_MOST_SHOWN = 12


def differences(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each difference. Equal recordings yield no line."""
    old = {entry["step"]: entry for entry in before}
    new = {entry["step"]: entry for entry in after}
    for step in old:
        if step not in new:
            yield f"{step}: not in the second recording"
    for step in new:
        if step not in old:
            yield f"{step}: only in the second recording"
    for step, entry in old.items():
        if step in new and entry != new[step]:
            found = list(_between(entry, new[step], ""))
            for line in found[:_MOST_SHOWN]:
                yield f"{step}: {line}"
            if len(found) > _MOST_SHOWN:
                yield f"{step}: {len(found) - _MOST_SHOWN} more"
    common = [step for step in old if step in new]
    if common != [step for step in new if step in old]:
        yield "the steps stand in another order"


def _between(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            where = f"{path}.{name}" if path else str(name)
            if name not in after:
                yield f"{where} is gone (was {before[name]!r})"
            elif name not in before:
                yield f"{where} is new ({after[name]!r})"
            else:
                yield from _between(before[name], after[name], where)
        if list(before) != list(after) and set(before) == set(after):
            yield f"{path or 'entry'}: fields stand in another order"
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path} has {len(after)} elements, had {len(before)}"
        for number, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from _between(one, other, f"{path}[{number}]")
    elif type(before) is not type(after) or before != after:
        yield f"{path}: {before!r} became {after!r}"
