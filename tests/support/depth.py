"""The depth of the tests that try many cases: quick in ``make test``, thorough in ``make test-deep``."""

import os

DEEP = os.environ.get("TEST_DEPTH") == "deep"


def cases(quick: int, *, deep: int) -> int:
    """Choose a number of cases by the depth of this run."""
    return deep if DEEP else quick
