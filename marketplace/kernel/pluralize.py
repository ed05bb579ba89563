"""Words of sentences that are put together."""


def format_count(number: int, noun: str) -> str:
    """Write how many there are of something: ``1 payment``, ``2 payments``.

    :param number: how many
    :param noun: in the singular, one whose plural ends in ``s``
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
