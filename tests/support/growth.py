"""Growth of processor time with input size, measured as a ratio that is independent of the machine's speed."""

import time
from collections.abc import Callable


def assert_linear(work: Callable[[str], object], unit: str, *, length: int) -> None:
    """Assert that work on a text takes time in proportion to the text's length.

    An eight times longer text takes eight times as long; a quadratic expression takes 64 times as long.

    :param work: a function of the text
    :param unit: the unit that is repeated to build the text
    :param length: the length of the longer text, in characters
    """
    short, long = ((unit * (length // len(unit) + 1))[:size] for size in (length // 8, length))
    # The floor keeps the clock's resolution and the interpreter's pauses out of the ratio.
    allowed = 24 * max(_processor_seconds(work, short, times=3), 0.0002)
    assert _processor_seconds(work, long, times=3, enough=allowed) < allowed


def _processor_seconds(work: Callable[[str], object], text: str, *, times: int, enough: float = 0) -> float:
    """Measure the fastest of several calls. Stop at the first call that is fast enough."""
    fastest = float("inf")
    for _ in range(times):
        started = time.process_time()
        work(text)
        fastest = min(fastest, time.process_time() - started)
        if fastest < enough:
            break
    return fastest
