"""Growth of processor time with the size of the input, as a ratio: no test depends on the machine's speed."""

import time
from collections.abc import Callable


def assert_linear(work: Callable[[str], object], unit: str, *, length: int) -> None:
    """Hold that work on a text takes time in proportion to the text's length.

    An eight times longer text takes eight times as long; a quadratic expression takes 64 times as long.

    :param work: takes the text
    :param unit: fills the text by repetition
    :param length: of the longer text, in characters
    """
    short, long = ((unit * (length // len(unit) + 1))[:size] for size in (length // 8, length))
    # The floor keeps the clock's resolution and the interpreter's pauses out of the ratio.
    allowed = 24 * max(_processor_seconds(work, short, times=3), 0.0002)
    assert _processor_seconds(work, long, times=3, enough=allowed) < allowed


def _processor_seconds(work: Callable[[str], object], text: str, *, times: int, enough: float = 0) -> float:
    """Measure the fastest of some calls; stop at the first that took no longer than enough."""
    fastest = float("inf")
    for _ in range(times):
        started = time.process_time()
        work(text)
        fastest = min(fastest, time.process_time() - started)
        if fastest < enough:
            break
    return fastest
