"""Distances between places on the earth."""

import math

import pytest

from marketplace.platform.campuses.hubs import compute_distance_meters

LAGOS, ABUJA = (6.4550, 3.3841), (9.0765, 7.3986)
HALF_CIRCUMFERENCE = math.pi * 6_371_009


def test_known_distance() -> None:
    # The great-circle distance of Lagos and Abuja is about 530 km.
    assert compute_distance_meters(LAGOS, ABUJA) == pytest.approx(530_000, rel=0.01)
    assert compute_distance_meters(ABUJA, LAGOS) == pytest.approx(compute_distance_meters(LAGOS, ABUJA))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (LAGOS, LAGOS, 0),
        ((0.0, 0.0), (0.0, 180.0), HALF_CIRCUMFERENCE),
        ((90.0, 0.0), (-90.0, 77.0), HALF_CIRCUMFERENCE),
        ((0.0, 179.5), (0.0, -179.5), HALF_CIRCUMFERENCE / 180),
        ((1e-15, 0.0), (-1e-15, 180.0), HALF_CIRCUMFERENCE),
    ],
)
def test_extreme_places(start: tuple[float, float], end: tuple[float, float], expected: float) -> None:
    assert compute_distance_meters(start, end) == pytest.approx(expected, abs=1)
