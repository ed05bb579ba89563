"""Recall and reciprocal rank of labelled queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.search_quality.labels import Label

DEPTH = 10


@dataclass(frozen=True)
class Outcome:
    """What the search gave for a label.

    :param relevant: how many listings of the catalogue are meant
    :param titles: the first ``DEPTH`` results
    """

    label: Label
    relevant: int
    titles: tuple[str, ...]

    @property
    def recall(self) -> float:
        """Give the share of what is meant that is there, of as many as there is room for."""
        hits = sum(self.label.is_relevant(title) for title in self.titles)
        return hits / min(DEPTH, self.relevant)

    @property
    def reciprocal_rank(self) -> float:
        """Give one through the place of the first listing that is meant, or 0."""
        ranks = (place for place, title in enumerate(self.titles, 1) if self.label.is_relevant(title))
        return 1 / next(ranks, float("inf"))


def evaluate(
    labels: Sequence[Label], *, catalogue: Sequence[str], search: Callable[[str], Sequence[str]]
) -> list[Outcome]:
    """Search for each label.

    :param labels: each must mean something that is there
    :param catalogue: the titles of all listings
    :param search: gives the titles that are found, the best first
    :raises ValueError: a label means nothing that is there
    """
    outcomes = []
    for label in labels:
        relevant = sum(label.is_relevant(title) for title in catalogue)
        if not relevant:
            raise ValueError(f"nothing in the catalogue is meant by {label.query!r}")
        outcomes.append(Outcome(label, relevant, tuple(search(label.query)[:DEPTH])))
    return outcomes


def mean(values: Sequence[float]) -> float:
    """Give the mean of at least one value."""
    return sum(values) / len(values)
