"""The part ``memory``: size and growth of a web worker's memory."""

from collections.abc import Callable, Iterator, Sequence

from bench.load import Call, put_under_load
from bench.processes import largest_child_mebibytes
from bench.stand import Stand

REQUESTS_PER_WORKER = 10_000
# Shares of the requests at which memory is read. From the first to the last reading, memory may grow by 5 %.
_READINGS = (0.2, 0.5, 1.0)
_MOST_MEBIBYTES = 110
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
    """Send requests until each worker has served its share, and read the largest worker's memory.

    :param stand: with a running web server
    :param calls: returns the given number of mixed requests
    :param workers: number of web workers
    :param clients: number of concurrent requests
    :param tell: receives progress messages
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
        tell(f"memory {readings[-1][1]:.1f} MiB after {readings[-1][0]} requests per worker")
    return line(readings)


def line(readings: Sequence[tuple[int, float]]) -> str:
    """Format the readings, and whether the memory target is met.

    :param readings: requests per worker, and the largest worker's memory in MiB
    """
    last = readings[-1][1]
    met = last <= _MOST_MEBIBYTES and last <= readings[0][1] * _MOST_GROWTH
    told = ", ".join(f"{size:.1f} after {requests:,}" for requests, size in readings)
    return (
        f"largest web worker, resident MiB: {told} mixed requests"
        f" (target: at most {_MOST_MEBIBYTES}, without growth) {'met' if met else 'MISSED'}"
    )
