"""The worker process of a queue: ``python -m tasks.worker QUEUE``. Several workers may run on several hosts."""

import contextlib
import os
import socket
import sys
import threading
from dataclasses import replace

import structlog

from marketplace.background import workers
from marketplace.background.workers import Worker
from marketplace.infra.cache import CacheDownError
from marketplace.infra.logs import configure_error_tracking, configure_logging
from marketplace.infra.settings import Settings, SettingsError, load_settings
from marketplace.infra.tracing.collector import configure_tracing
from marketplace.infra.waits.limits import WORKER_LIMITS
from marketplace.kernel import queues
from marketplace.services import Services
from tasks.dispatcher import Dispatcher, connect_wakeups
from tasks.scheduler import TaskRunner

_log = structlog.get_logger(__name__)

# Work that is still running after this time is interrupted. Rows are requeued, and periodic tasks run again after their
# lease. Orchestrators wait 30 s before killing a process.
_STOP_SECONDS = 15.0


def main(arguments: list[str]) -> int:
    """Process a queue until SIGTERM. Started rows are finished, or requeued after 15 s.

    :param arguments: the queue's name
    :return: the process's exit status
    """
    if len(arguments) != 1 or arguments[0] not in queues.NAMES:
        sys.stderr.write(f"usage: python -m tasks.worker QUEUE, one of {', '.join(queues.NAMES)}\n")
        return 2
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    configure_logging(settings)
    configure_error_tracking(settings)
    configure_tracing(settings, process=f"worker {arguments[0]}")
    _run_worker(arguments[0], settings)
    return 0


def _run_worker(queue: str, settings: Settings) -> None:
    # A pool may grow to twice this size: enough for the consumer's threads and the scheduler.
    pooled_settings = replace(settings, database_pool_size=max(settings.database_pool_size, 5))
    services = Services.from_settings(
        pooled_settings, application_name=f"worker {queue}", wait_limits=WORKER_LIMITS
    )
    host, process_id, now = socket.gethostname(), os.getpid(), services.clock()
    this_worker = Worker(f"{queue}@{host}:{process_id}", queue, host, process_id, started_at=now, told_at=now)
    dispatcher = Dispatcher(services, worker=this_worker)
    connect_wakeups(dispatcher)
    TaskRunner(services, dispatcher, name=this_worker.name, queue=queue)
    consumer = dispatcher.queues[queue].create_consumer(
        worker_type="thread",
        graceful_signal="TERM",
        check_worker_health=True,
        shutdown_timeout=_STOP_SECONDS,
        max_delay=5.0,  # seconds between attempts of a thread while the queue server is unavailable
    )
    ended = threading.Event()
    heartbeat = threading.Thread(
        target=_send_heartbeats,
        args=(services, dispatcher, this_worker, ended),
        name="heartbeat",
        daemon=True,
    )
    heartbeat.start()
    services.signal_sender.start()
    _log.info("worker started", worker=this_worker.name)
    consumer.run()
    requeued = dispatcher.requeue_running_rows()
    ended.set()
    heartbeat.join(timeout=2.0)
    services.signal_sender.stop()
    _log.info("worker stopped", worker=this_worker.name, putBack=requeued)


def _send_heartbeats(
    services: Services, dispatcher: Dispatcher, this_worker: Worker, ended: threading.Event
) -> None:
    """Send this worker's heartbeat every second, and remove the worker at the end."""
    while not ended.is_set():
        try:
            workers.record_heartbeat(
                services.cache,
                replace(this_worker, told_at=services.clock(), doing=dispatcher.activity.current()),
            )
        except CacheDownError:
            ended.wait(timeout=5.0)
        else:
            ended.wait(workers.HEARTBEAT_SECONDS)
    # If the cache is unavailable, the heartbeat expires.
    with contextlib.suppress(CacheDownError):
        workers.remove_worker(services.cache, this_worker.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
