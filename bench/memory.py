"""The memory of a web worker: how much it is after many requests, and whether it still grows."""

from collections.abc import Callable, Iterator, Sequence

from bench.load import Call, put_under_load
from bench.processes import largest_child_mebibytes
from bench.stand import Stand

REQUESTS_PER_WORKER = 10_000
# Read after these shares of the requests; from the first to the last it must stay as it is.
_READINGS = (0.2, 0.5, 1.0)
_MOST_MEBIBYTES = 120
_MOST_GROWTH = 1.05
_LONGEST_SECONDS = 300.0


def measure(
    stand: Stand,
    calls: Callable[[int], Iterator[Call]],
    *,
    workers: int,
    clients: int,
    tell: Callable[[str], None],
) -> str:
    """Send requests until each worker has had its share, and read the largest one's memory.

    :param stand: with its web server running
    :param calls: gives so many requests of all kinds
    :param workers: how many share them
    :param clients: how many requests are under way at any time
    :param tell: takes lines of progress
    :return: a line for the report
    """
    total, sent, readings = REQUESTS_PER_WORKER * workers, 0, []
    stream = calls(total)
    for part in _READINGS:
        upto = int(total * part)
        batch = iter([call for _, call in zip(range(upto - sent), stream, strict=False)])
        put_under_load(stand.ports["web"], batch, clients=clients, seconds=_LONGEST_SECONDS)
        sent = upto
        readings.append((upto // workers, largest_child_mebibytes(stand.process_id("web"))))
        tell(f"memory {readings[-1][1]:.1f} MiB after {readings[-1][0]} requests a worker")
    return line(readings)


def line(readings: Sequence[tuple[int, float]]) -> str:
    """Tell what was read, and whether it is within its bounds.

    :param readings: requests a worker has had, and the memory of the largest one in MiB
    """
    last = readings[-1][1]
    met = last <= _MOST_MEBIBYTES and last <= readings[0][1] * _MOST_GROWTH
    told = ", ".join(f"{size:.1f} after {requests:,}" for requests, size in readings)
    return (
        f"largest web worker, MiB resident: {told} mixed requests"
        f" (target: at most {_MOST_MEBIBYTES}, and flat) {'met' if met else 'MISSED'}"
    )
