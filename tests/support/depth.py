"""The depth of the tests that try many cases: quick in ``make test``, thorough in ``make test-deep``.

``make test-deep`` runs the modules that import ``case_count`` or ``sample``.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

DEEP = os.environ.get("TEST_DEPTH") == "deep"
Item = TypeVar("Item")


def case_count(quick: int, *, deep: int) -> int:
    """Choose the number of cases by the depth of this run."""
    return deep if DEEP else quick


def sample(items: Sequence[Item], *, every: int, offset: int = 0) -> Sequence[Item]:
    """Return every n-th item in a quick run, and all items in a deep run.

    :param offset: shifts the choice, so that several calls together cover all items
    """
    return items if DEEP else items[offset % every :: every]
