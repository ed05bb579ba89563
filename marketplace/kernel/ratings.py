"""Average ratings. Tables store the sum and the count of stars."""


def average_rating(rating_sum: int, rating_count: int) -> float | None:
    """Return the average rating in stars, rounded to two decimals.

    :param rating_sum: the sum of all stars
    :return: none without a rating
    """
    return round(rating_sum / rating_count, 2) if rating_count else None
