"""Send the counts of a process to the cache, where all processes add up.

A count belongs to the minute in which it is sent. A killed process loses the counts of the last seconds.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.signals.counters import Counters
from marketplace.kernel.clock import Clock, system_clock
from marketplace.kernel.signals import CLIENT_LABELLED, RECORDER, Key, Recorder

INTERVAL_SECONDS = 5.0
_MAX_KEPT_COUNTS = 20_000  # while the cache is down
_MAX_FIELDS_PER_CALL = 1_000
_SEPARATOR = "|"

_log = structlog.get_logger(__name__)


def signal_counters(cache: Cache) -> Counters:
    """Return the counters of all processes."""
    return Counters(cache, "signals")


def send_counts(cache: Cache, *, minute: int, recorder: Recorder = RECORDER) -> int:
    """Send the counts since the last call. While the cache is down, the process keeps up to 20,000 different counts.

    :param minute: minutes since 1970
    :return: the number of sent counts
    """
    taken = recorder.take()
    if not taken:
        return 0
    counters, sent = signal_counters(cache), 0
    # A part that was sent must not be sent again, so each part is kept or sent as a whole.
    for part in _split(taken):
        fields = {_format_field(key): number for key, number in part.items()}
        to_totals = next(iter(part)).signal not in CLIENT_LABELLED
        try:
            counters.add(fields, batch_prefix=f"{minute}{_SEPARATOR}", to_totals=to_totals)
        except CacheDownError:
            if len(taken) <= _MAX_KEPT_COUNTS:
                recorder.put_back(part)
        else:
            sent += len(part)
    return sent


def _split(counts: Mapping[Key, int]) -> Iterator[dict[Key, int]]:
    """Split counts into parts for a command each. No part mixes ``CLIENT_LABELLED`` with other signals."""
    for is_client_labelled in (False, True):
        keys = [key for key in counts if (key.signal in CLIENT_LABELLED) is is_client_labelled]
        for start in range(0, len(keys), _MAX_FIELDS_PER_CALL):
            yield {key: counts[key] for key in keys[start : start + _MAX_FIELDS_PER_CALL]}


def read_totals(cache: Cache) -> dict[Key, int]:
    """Return the counts of all processes since the cache was empty.

    :raises CacheDownError: the cache is unavailable
    """
    return {parse_field(field): number for field, number in signal_counters(cache).read_totals().items()}


def _format_field(key: Key) -> str:
    return _SEPARATOR.join((key.signal, str(key.bucket), key.label))


def parse_field(field: str) -> Key:
    """Parse the field of a total."""
    signal, bucket, label = field.split(_SEPARATOR, 2)
    return Key(signal, label, int(bucket))


def parse_batch_field(field: str) -> tuple[int, Key]:
    """Parse the field of a batch: the minute since 1970 and the key."""
    minute, rest = field.split(_SEPARATOR, 1)
    return int(minute), parse_field(rest)


class SignalSender:
    """A thread that sends the counts of this process every few seconds."""

    def __init__(
        self, cache: Cache, *, clock: Clock = system_clock, samples: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Prepare the thread.

        :param clock: the clock that all hosts share; dates the counts
        :param samples: functions that record a state, such as the use of a pool, before each sending
        """
        self._cache = cache
        self._clock = clock
        self._samples = samples
        self._stopping = threading.Event()
        self._process_id = 0

    def start(self) -> None:
        """Start the thread once per process. Threads do not survive a fork."""
        if self._process_id == os.getpid():
            return
        self._process_id, self._stopping = os.getpid(), threading.Event()
        threading.Thread(target=self._run, args=(self._stopping,), name="signals", daemon=True).start()

    def stop(self) -> None:
        """Send the remaining counts and end the thread."""
        self._stopping.set()
        if self._process_id == os.getpid():
            self._send()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(INTERVAL_SECONDS):
            self._send()

    def _send(self) -> None:
        try:
            for sample in self._samples:
                sample()
        except Exception as error:  # noqa: BLE001 - a sample never stops the sending
            _log.warning("state not sampled", error=type(error).__name__)
        try:
            send_counts(self._cache, minute=int(self._clock().timestamp()) // 60)
        except Exception as error:  # noqa: BLE001 - counts never stop a process
            _log.warning("signals not sent", error=type(error).__name__)
