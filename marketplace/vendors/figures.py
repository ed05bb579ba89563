"""Public figures of a store, computed from the sums in its profile."""

from fractions import Fraction


def average_response_minutes(response_seconds_sum: int, response_count: int) -> int | None:
    """Return the average response time in minutes, rounded up, or None without responses."""
    return -(-response_seconds_sum // (response_count * 60)) if response_count else None


def completion_rate(completed_orders: int, failed_orders: int) -> float | None:
    """Return the share of ended orders that were delivered, from 0 to 1 with two decimals.

    A share below 1 is at most 0.99, so that 1 always means "all orders". None without ended orders.
    """
    ended = completed_orders + failed_orders
    if not ended:
        return None
    # Floor: a rounded share would hide a failure among many orders.
    return float(Fraction(completed_orders * 100 // ended, 100))
