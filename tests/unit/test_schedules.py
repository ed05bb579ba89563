"""Schedules: parsing, tick times and error messages."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from huey import crontab
from hypothesis import given, strategies as some

from marketplace.kernel.schedules import Crontab, Interval, InvalidScheduleError, parse_schedule

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)  # a Friday

moments = some.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=some.just(UTC))  # noqa: DTZ001
numbers = some.integers(0, 59)


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("* * * * *", "2026-11-20 12:01"),
        ("*/15 * * * *", "2026-11-20 12:15"),
        ("7 * * * *", "2026-11-20 12:07"),
        ("0 * * * *", "2026-11-20 13:00"),
        ("30 2 * * *", "2026-11-21 02:30"),
        ("30 2 * * mon-fri", "2026-11-23 02:30"),
        ("30 2 * * 1-5", "2026-11-23 02:30"),
        ("0 0 * * sun", "2026-11-22 00:00"),
        ("0 0 * * 7", "2026-11-22 00:00"),
        ("0 0 * * 0", "2026-11-22 00:00"),
        ("0 0 1 jan *", "2027-01-01 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 31 * *", "2026-12-31 00:00"),
        ("5,35 9-10 * * *", "2026-11-21 09:05"),
        ("10/20 12 * * *", "2026-11-20 12:10"),
        ("0 12 * * *", "2026-11-21 12:00"),
        # Cron combines the day of the month and the day of the week with OR.
        ("0 0 25 * sat", "2026-11-21 00:00"),
        ("0 0 25 * *", "2026-11-25 00:00"),
        ("0 0 */2 * mon", "2026-11-23 00:00"),
        ("every 15s", "2026-11-20 12:00:15"),
        ("every 1h", "2026-11-20 13:00"),
        ("Every  2 H", "2026-11-20 14:00"),
        ("every 1d", "2026-11-21 00:00"),
        ("every 7m", "2026-11-20 12:03"),
    ],
)
def test_schedule_has_the_expected_first_tick_after_noon(text: str, following: str) -> None:
    assert parse_schedule(text).next_after(NOON) == datetime.fromisoformat(f"{following}+00:00")


def test_leap_day_is_found_across_a_century_without_leap_year() -> None:
    after = datetime(2096, 3, 1, tzinfo=UTC)
    assert parse_schedule("0 0 29 2 *").next_after(after) == datetime(2104, 2, 29, tzinfo=UTC)


def test_times_of_other_zones_are_converted_to_utc() -> None:
    lagos = timezone(timedelta(hours=1))
    assert parse_schedule("30 2 * * *").next_after(datetime(2026, 11, 20, 3, 15, tzinfo=lagos)) == datetime(
        2026, 11, 20, 2, 30, tzinfo=UTC
    )


@given(moment=moments, minute=numbers, hour=some.integers(0, 23))
def test_ticks_match_the_crontab_of_huey(moment: datetime, minute: int, hour: int) -> None:
    for expression, huey_fields in (
        (f"{minute} {hour} * * *", {"minute": str(minute), "hour": str(hour)}),
        (f"*/{minute + 1} * * * *", {"minute": f"*/{minute + 1}"}),
        (f"{minute} * * * {hour % 7}", {"minute": str(minute), "day_of_week": str(hour % 7)}),
    ):
        tick = parse_schedule(expression).next_after(moment)
        fires = crontab(**huey_fields)
        assert tick > moment
        assert fires(tick)
        # Huey has no earlier tick, within the minutes that are checked.
        between = tick - timedelta(minutes=1)
        while between > max(moment, tick - timedelta(minutes=90)):
            assert not fires(between)
            between -= timedelta(minutes=1)


@given(moment=moments, seconds=some.integers(5, 100_000))
def test_interval_ticks_are_evenly_spaced_from_any_start(moment: datetime, seconds: int) -> None:
    timetable = parse_schedule(f"every {seconds}s")
    tick = timetable.next_after(moment)

    assert timedelta() < tick - moment <= timedelta(seconds=seconds)
    assert timetable.next_after(tick) - tick == timedelta(seconds=seconds)
    assert timetable.next_after(tick - timedelta(microseconds=1)) == tick


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A crontab expression has 5 fields, but '' has 0."),
        ("* * * *", "A crontab expression has 5 fields, but '* * * *' has 4."),
        ("* * * * * *", "has 6."),
        ("60 * * * *", "'60' is not a valid minute (0 to 59)"),
        ("* 24 * * *", "'24' is not a valid hour (0 to 23)"),
        ("* * 0 * *", "'0' is not a valid day of the month (1 to 31)"),
        ("* * * 13 *", "'13' is not a valid month (1 to 12)"),
        ("* * * * 8", "'8' is not a valid day of the week (0 to 7)"),
        ("*/0 * * * *", "'*/0' is not a valid minute"),
        ("5-1 * * * *", "'5-1' is not a valid minute"),
        ("soon * * * *", "'soon' is not a valid minute"),
        ("* * * * fre", "'fre' is not a valid day of the week"),
        ("1,,2 * * * *", "'' is not a valid minute"),
        ("-1 * * * *", "'-1' is not a valid minute"),
        ("5-5/10 * * * *", "has a step on a range of a single value"),
        ("* * * * mon-mon/2", "has a step on a range of a single value"),
        ("* * * * mon-1/2", "or on a range that mixes a number and a name"),
        ("99999999 * * * *", "is not a valid minute"),
        ("٣ * * * *", "is not a valid minute"),
        ("0 0 30 2 *", "never occurs"),
        ("every", "is not an interval"),
        ("every second", "is not an interval"),
        ("every 4s", "is not between 5 seconds and 31 days"),
        ("every 32d", "is not between 5 seconds and 31 days"),
        ("every 999999d", "is not between 5 seconds and 31 days"),
        ("every 15", "is not an interval"),
        ("@daily", "has 1."),
        ("x" * 5000, "has 1."),
    ],
)
def test_invalid_schedule_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(InvalidScheduleError) as refused:
        parse_schedule(text)

    assert message in str(refused.value)
    assert "every 15s" in str(refused.value)
    assert "*/5 * * * *" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/1 * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/05 * * * *", "every 5 minutes"),
        ("*/30 * * * *", "every 30 minutes"),
        # Minutes 0 to 56 by 7, and then minute 0 again.
        ("*/7 * * * *", "*/7 * * * * (UTC)"),
        ("*/45 * * * *", "*/45 * * * * (UTC)"),
        ("*/90 * * * *", "*/90 * * * * (UTC)"),
        ("7 * * * *", "each hour at minute 7"),
        ("5 3 * * *", "daily at 03:05 UTC"),
        ("0 0 1 * *", "0 0 1 * * (UTC)"),
        ("every 1m", "every minute"),
        ("every 15s", "every 15 seconds"),
    ],
)
def test_schedule_is_described_in_words(text: str, words: str) -> None:
    assert parse_schedule(text).description == words


def test_normalized_text_of_schedule_parses_to_same_schedule() -> None:
    for text in ("EVERY 05m", "  30  2 * * MON-FRI "):
        first = parse_schedule(text)
        assert isinstance(first, Interval | Crontab)
        assert parse_schedule(first.text) == first
