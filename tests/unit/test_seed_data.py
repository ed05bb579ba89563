"""Data files of the demo: a file that does not hold what its record declares is refused with its name."""

from dataclasses import dataclass

import pytest

from commands.seeding.loading import InvalidDataError, parse_data


@dataclass(frozen=True)
class Stall:
    """A record within another one."""

    name: str
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a stall needs a name")


@dataclass(frozen=True)
class Market:
    """A file's content."""

    stalls: tuple[Stall, ...]
    days: tuple[str, ...] = ("mon",)
    open: bool = True


def test_a_file_becomes_records() -> None:
    content = b'{"stalls": [{"name": "A", "pieces": 3}, {"name": "B", "pieces": null}], "days": ["tue"]}'

    assert parse_data(content, Market, name="market") == Market((Stall("A", 3), Stall("B")), ("tue",))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "unexpected end"),
        (b"[]", "Invalid input type"),
        (b"{}", "Missing data for required field"),
        (b'{"stalls": [], "shops": []}', "Unknown field"),
        (b'{"stalls": [{"name": 7}]}', "Not a valid string"),
        (b'{"stalls": [{"name": "A", "pieces": "many"}]}', "Not a valid integer"),
        (b'{"stalls": [{"name": null}]}', "may not be null"),
        (b'{"stalls": "A"}', "Not a valid list"),
        (b'{"stalls": [{"name": ""}]}', "a stall needs a name"),
    ],
)
def test_a_file_with_a_fault_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(InvalidDataError, match=fault) as refused:
        parse_data(content, Market, name="market")

    assert str(refused.value).startswith("market.json: ")
