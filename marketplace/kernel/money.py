"""Money is integer minor units (kobo); floats never touch it."""

from collections.abc import Sequence

CURRENCY = "NGN"
MINOR_PER_MAJOR = 100
BASIS_POINTS = 10_000


def format_decimal(amount_minor: int) -> str:
    """Write an amount as a decimal number of naira.

    :param amount_minor: kobo, of either sign
    :return: digits that are also a JSON number, with at most two decimals: ``1050`` gives ``10.5``
    """
    sign = "-" if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), MINOR_PER_MAJOR)
    decimals = f"{fraction:02d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def format_naira(amount_minor: int) -> str:
    """Write an amount for people: ``1050`` gives ``NGN 10.50``.

    :param amount_minor: kobo, of either sign
    """
    return format_amount(amount_minor, CURRENCY)


def format_amount(amount_minor: int, currency: str) -> str:
    """Write an amount of a currency for people: ``1050`` of USD gives ``USD 10.50``.

    :param amount_minor: hundredths, of either sign
    :param currency: its code
    """
    sign = "-" if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), MINOR_PER_MAJOR)
    return f"{sign}{currency} {whole:,}.{fraction:02d}"


def share_in_basis_points(amount_minor: int, basis_points: int) -> int:
    """Take a share of an amount, rounded down, so that a fee never exceeds its rate.

    :param amount_minor: kobo, not negative
    :param basis_points: hundredths of a percent, 0 to 10,000
    :return: kobo
    :raises ValueError: a negative amount or a rate out of range
    """
    if amount_minor < 0 or not 0 <= basis_points <= BASIS_POINTS:
        raise ValueError("a share needs an amount of at least 0 and a rate of 0 to 10,000 basis points")
    return amount_minor * basis_points // BASIS_POINTS


def split_by_weights(amount_minor: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to weights so that the parts add up to it.

    It is the largest remainder method (Hamilton's): each part is rounded down, then what is left goes,
    kobo by kobo, to the parts with the largest remainders, the earlier one first where they are equal.

    :param amount_minor: kobo, not negative
    :param weights: one for each part, none negative, at least one positive
    :return: kobo for each part, in the weights' order
    :raises ValueError: a negative amount or weight, or no positive weight
    """
    total_weight = sum(weights)
    if amount_minor < 0 or total_weight <= 0 or min(weights) < 0:
        raise ValueError("a split needs an amount of at least 0 and weights of which one is positive")
    parts = [amount_minor * weight // total_weight for weight in weights]
    remainders = [amount_minor * weight % total_weight for weight in weights]
    for index in sorted(range(len(weights)), key=lambda i: -remainders[i])[: amount_minor - sum(parts)]:
        parts[index] += 1
    return parts
