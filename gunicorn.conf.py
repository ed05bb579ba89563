"""How gunicorn serves the application; every line that may differ between machines is a variable.

Two process groups run it: the sync one (default) for what computes, and one with ``WORKER_CLASS=gevent`` for
what waits for a provider, a browser or a slow upload. The proxy decides by path.
"""

import os
from pathlib import Path
from typing import Any

worker_class = os.environ.get("WORKER_CLASS", "sync")
if worker_class == "gevent":
    # Here, before anything else is imported: what is imported first keeps blocking sockets and locks.
    from gevent import monkey

    monkey.patch_all()

    from psycogreen.gevent import patch_psycopg

    patch_psycopg()
elif worker_class != "sync":
    raise SystemExit(f"WORKER_CLASS must be sync or gevent, not {worker_class}")


from gunicorn.glogging import Logger  # noqa: E402 - after the patching


def _read_integer(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if not value:
        return default
    if not value.isdecimal() or not 1 <= int(value) <= 1_000:
        raise SystemExit(f"{name} must be a whole number from 1 to 1000, not {value!r}")
    return int(value)


def _default_workers() -> int:
    """Count the processors that this process may use.

    One gevent worker waits for hundreds of answers at once. Of sync workers there are at least two, so that a
    slow request does not hold up all others; more than three were not faster where this was measured.
    """
    if worker_class == "gevent":
        return 1
    # Not everywhere can it be told how many of the machine's processors are ours.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(usable, 2), 3)


class ServiceLogger(Logger):
    """Sends gunicorn's own messages the way of all other logs: redacted lines of JSON."""

    def setup(self, cfg: Any) -> None:
        """Replace gunicorn's handlers by the application's."""
        super().setup(cfg)
        # Not at the top: a bad setting is to be reported as one, not as a configuration that can't be read.
        from marketplace.infra.logs import configure_logging  # noqa: PLC0415
        from marketplace.infra.settings import load_settings  # noqa: PLC0415

        configure_logging(load_settings())
        self.error_log.handlers.clear()
        self.error_log.propagate = True


bind = os.environ.get("WEB_BIND", "127.0.0.1:8000")
workers = _read_integer("WEB_CONCURRENCY", _default_workers())
worker_connections = 500
backlog = 512
proc_name = f"marketplace-{worker_class}"

# The application is imported once, before the workers are forked: they share its memory, start in no time,
# and a fault in it or in its settings ends the master with a message instead of workers over and over.
# Nothing may connect at import; post_fork makes sure that a worker inherits no connection all the same.
preload_app = True

# A request gets so long; longer than a statement (30 s) may take. Gevent workers only report that they live.
timeout = 40
graceful_timeout = _read_integer("WEB_GRACEFUL_SECONDS", 20)
# Longer than the proxy keeps idle connections (2 minutes), or it might send a request into a closing one.
# Sync workers keep none.
keepalive = 130

limit_request_line = 8_190
limit_request_fields = 64
limit_request_field_size = 8_190

# The application logs requests itself, with route, user and duration.
accesslog = None
errorlog = "-"
logger_class = ServiceLogger
# One master per group, and nothing asks them anything: signals are enough.
control_socket_disable = True
# A heartbeat in memory: on a slow disk it may block a worker.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - no file name is guessed


def post_fork(_server: Any, _worker: Any) -> None:
    """Drop connections that were opened before the fork: two processes can't share one."""
    from wsgi import services  # noqa: PLC0415 - the application is loaded after this file

    services.database.dispose()
