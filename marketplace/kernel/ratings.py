"""Ratings: sums and counts of stars are stored, averages are shown."""


def average_rating(rating_sum: int, rating_count: int) -> float | None:
    """Give the average of ratings, in stars with two decimals.

    :param rating_sum: stars given, all together
    :param rating_count: how many gave them
    :return: the average, or none where nobody has rated yet
    """
    return round(rating_sum / rating_count, 2) if rating_count else None
