"""Recall and reciprocal rank of labelled queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.search_quality.labels import Label

DEPTH = 10


@dataclass(frozen=True)
class Outcome:
    """The results of the search for a label.

    :param relevant: number of relevant listings in the catalogue
    :param titles: the first ``DEPTH`` results
    """

    label: Label
    relevant: int
    titles: tuple[str, ...]

    @property
    def recall(self) -> float:
        """The share of relevant listings among the results, relative to the maximum possible."""
        hits = sum(self.label.is_relevant(title) for title in self.titles)
        return hits / min(DEPTH, self.relevant)

    @property
    def reciprocal_rank(self) -> float:
        """1 divided by the rank of the first relevant result, or 0 without a relevant result."""
        ranks = (place for place, title in enumerate(self.titles, 1) if self.label.is_relevant(title))
        return 1 / next(ranks, float("inf"))


def evaluate(
    labels: Sequence[Label], *, catalogue: Sequence[str], search: Callable[[str], Sequence[str]]
) -> list[Outcome]:
    """Search for each label.

    :param labels: each must have a relevant listing
    :param catalogue: titles of all listings
    :param search: returns the titles of the results, best first
    :raises ValueError: a label has no relevant listing
    """
    outcomes = []
    for label in labels:
        relevant = sum(label.is_relevant(title) for title in catalogue)
        if not relevant:
            raise ValueError(f"no listing of the catalogue is relevant to {label.query!r}")
        outcomes.append(Outcome(label, relevant, tuple(search(label.query)[:DEPTH])))
    return outcomes


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    return sum(values) / len(values)
