"""Demo data files: a file that does not match the record class is refused by name."""

from dataclasses import dataclass

import pytest

from commands.seeding.loading import InvalidDataError, parse_data


@dataclass(frozen=True)
class Stall:
    """A nested record."""

    name: str
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a stall needs a name")


@dataclass(frozen=True)
class Market:
    """Content of a data file."""

    stalls: tuple[Stall, ...]
    days: tuple[str, ...] = ("mon",)
    open: bool = True


def test_data_file_is_parsed_into_records() -> None:
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
def test_invalid_data_file_is_refused_by_name(content: bytes, fault: str) -> None:
    with pytest.raises(InvalidDataError, match=fault) as refused:
        parse_data(content, Market, name="market")

    assert str(refused.value).startswith("market.json: ")
