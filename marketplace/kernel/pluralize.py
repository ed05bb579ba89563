"""Counts with nouns for messages."""


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 payment``, ``2 payments``.

    :param noun: a singular noun with a plural in ``s``
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
