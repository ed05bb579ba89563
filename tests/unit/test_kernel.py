"""Kernel utilities: money as text, ids, times and pages."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, strategies as st

from marketplace.kernel.clock import iso, system_clock
from marketplace.kernel.errors import CATALOG, MalformedBodyError, MarketplaceError, ValidationError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.money import BASIS_POINTS, format_decimal, share_in_basis_points, split_by_weights
from marketplace.kernel.paging import PageRequest, page_of

AMOUNTS = st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (5, "0.05"), (10, "0.1"), (1050, "10.5"), (100, "1"), (123_456_789, "1234567.89"),
     (-5, "-0.05"), (-100, "-1"), (-1050, "-10.5"), (10**15 + 1, "10000000000000.01")],
)  # fmt: skip
def test_naira_are_written_in_the_fewest_digits(amount: int, text: str) -> None:
    assert format_decimal(amount) == text


@given(amount=AMOUNTS, rate=st.integers(0, BASIS_POINTS))
def test_share_is_rounded_down(amount: int, rate: int) -> None:
    share = share_in_basis_points(amount, rate)

    assert share * BASIS_POINTS <= amount * rate < (share + 1) * BASIS_POINTS
    assert share + share_in_basis_points(amount, BASIS_POINTS - rate) in (amount, amount - 1)


@given(amount=AMOUNTS, weights=st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any))
def test_zero_weight_gets_zero(amount: int, weights: list[int]) -> None:
    parts = split_by_weights(amount, weights)

    assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if weight == 0)
    assert split_by_weights(amount, weights) == split_by_weights(amount, [weight * 7 for weight in weights])


def test_first_of_equal_weights_gets_the_odd_kobo() -> None:
    assert split_by_weights(100, [1, 1, 1]) == [34, 33, 33]
    assert split_by_weights(2, [1, 1, 1]) == [1, 1, 0]
    assert split_by_weights(10, [6, 3, 1]) == [6, 3, 1]


@given(st.uuids())
def test_uuid_is_parsed_in_upper_and_lower_case(value: UUID) -> None:
    assert parse_uuid(str(value)) == value == parse_uuid(str(value).upper())


@given(st.uuids(version=4))
def test_uuid_of_another_version_is_refused(value: UUID) -> None:
    assert parse_uuid(str(value), version=4) == value
    assert parse_uuid(str(value), version=7) is None


@pytest.mark.parametrize(
    "write",
    [lambda u: u.hex, lambda u: f"{{{u}}}", lambda u: u.urn, lambda u: f" {u}", lambda u: f"{u}\n",
     lambda u: f"{u}"[:-1], lambda u: f"{u}0", lambda u: f"{u}".replace("-", "_"), lambda _u: "",
     lambda u: f"g{u}"[:36], lambda u: f"{u}"[:-1] + "٣"],
)  # fmt: skip
def test_any_other_spelling_of_uuid_is_refused(write: Any) -> None:
    assert parse_uuid(write(uuid4())) is None


@given(st.datetimes(min_value=datetime(1900, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001 - the zone follows
def test_time_is_written_in_utc_to_the_microsecond(moment: datetime, offset_minutes: int) -> None:
    there = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=offset_minutes)))
    written = iso(there)

    assert written.endswith("Z")
    assert len(written) == len("2026-01-01T00:00:00.000000Z")
    assert datetime.fromisoformat(written) == there


def test_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        iso(datetime(2026, 1, 1))  # noqa: DTZ001 - the missing zone is the test data


def test_system_clock_is_in_utc() -> None:
    assert system_clock().utcoffset() == timedelta(0)
    assert abs(system_clock() - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("fetched", "shown", "position"),
    [(0, 0, None), (1, 1, None), (3, 3, None), (4, 3, [2])],
    ids=["no rows", "partial page", "full page", "row beyond page"],
)
def test_page_has_next_position_only_if_another_row_was_found(
    fetched: int, shown: int, position: list[int] | None
) -> None:
    rows = [{"n": number} for number in range(fetched)]
    page = page_of(rows, request=PageRequest(3), position_of=lambda row: [row["n"]])

    assert page.items == rows[:shown]
    assert page.limit == 3
    assert page.next_position == position


def errors_below(base: type[MarketplaceError]) -> list[type[MarketplaceError]]:
    found = {base, *(error for child in base.__subclasses__() for error in errors_below(child))}
    # Sorted, because parallel test processes import modules in different orders.
    return sorted(found, key=lambda error: (error.__module__, error.__qualname__))


@pytest.mark.parametrize("error", errors_below(MarketplaceError), ids=lambda error: error.__name__)
def test_every_error_code_is_in_the_catalog(error: type[MarketplaceError]) -> None:
    assert error.code in CATALOG


def test_error_has_catalog_meaning_unless_given_a_detail() -> None:
    assert MarketplaceError().detail == CATALOG["INTERNAL_ERROR"].meaning
    assert str(ValidationError.of("items[0].quantity", "must be at least 1")) == (
        "items[0].quantity: must be at least 1"
    )
    malformed = MalformedBodyError("The body is not JSON.")
    assert (malformed.status, malformed.title, malformed.code) == (400, "Bad Request", "VALIDATION_FAILED")
