"""Money as integers in minor units (kobo), never as floats."""

from collections.abc import Sequence

CURRENCY = "NGN"
MINOR_PER_MAJOR = 100
BASIS_POINTS = 10_000


def format_decimal(amount_minor: int) -> str:
    """Format an amount as a decimal number of naira: ``1050`` becomes ``10.5``.

    :param amount_minor: kobo, of either sign
    :return: a valid JSON number with at most two decimals
    """
    sign = "-" if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), MINOR_PER_MAJOR)
    decimals = f"{fraction:02d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def format_naira(amount_minor: int) -> str:
    """Format an amount for people: ``1050`` becomes ``NGN 10.50``.

    :param amount_minor: kobo, of either sign
    """
    return format_amount(amount_minor, CURRENCY)


def format_amount(amount_minor: int, currency: str) -> str:
    """Format an amount in a currency for people: ``1050`` in USD becomes ``USD 10.50``.

    :param amount_minor: hundredths of the currency unit, of either sign
    :param currency: the ISO 4217 code
    """
    sign = "-" if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), MINOR_PER_MAJOR)
    return f"{sign}{currency} {whole:,}.{fraction:02d}"


def share_in_basis_points(amount_minor: int, basis_points: int) -> int:
    """Return a share of an amount, rounded down so that a fee never exceeds the rate.

    :param amount_minor: kobo, not negative
    :param basis_points: hundredths of a percent, 0 to 10,000
    :return: kobo
    :raises ValueError: the amount is negative, or the rate is out of range
    """
    if amount_minor < 0 or not 0 <= basis_points <= BASIS_POINTS:
        raise ValueError("the amount must be at least 0 and the rate 0 to 10,000 basis points")
    return amount_minor * basis_points // BASIS_POINTS


def split_by_weights(amount_minor: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to weights, without losing a kobo.

    This is the largest remainder method (Hamilton). Each part is rounded down. The remaining kobo go to the parts
    with the largest remainders, and the earlier part wins a tie.

    :param amount_minor: kobo, not negative
    :param weights: a weight for each part; none negative, at least one positive
    :return: kobo for each part, in the order of the weights
    :raises ValueError: the amount or a weight is negative, or no weight is positive
    """
    total_weight = sum(weights)
    if amount_minor < 0 or total_weight <= 0 or min(weights) < 0:
        raise ValueError("the amount and the weights must be at least 0, and one weight must be positive")
    parts = [amount_minor * weight // total_weight for weight in weights]
    remainders = [amount_minor * weight % total_weight for weight in weights]
    for index in sorted(range(len(weights)), key=lambda i: -remainders[i])[: amount_minor - sum(parts)]:
        parts[index] += 1
    return parts
