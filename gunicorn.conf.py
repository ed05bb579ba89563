"""The configuration of gunicorn. Environment variables control values that differ between machines.

Two process groups serve the application. The sync group (default) handles CPU-bound requests. The group with
``WORKER_CLASS=gevent`` handles requests that wait for a provider, a browser or a slow upload. The proxy routes by path.
"""

import gc
import os
import threading
from pathlib import Path
from typing import Any

process_group = os.environ.get("WORKER_CLASS", "sync")
if process_group == "gevent":
    # Patch before all other imports. Modules imported earlier would keep blocking sockets and locks.
    from gevent import monkey

    # The wait callback of marketplace.infra.waits then lets other requests run while one waits for the database.
    monkey.patch_all()
elif process_group != "sync":
    raise SystemExit(f"WORKER_CLASS must be sync or gevent, not {process_group}")


from gunicorn.glogging import Logger  # noqa: E402 - after the patching

from blueprints.http.server.workers import ProblemWorker  # noqa: E402 - after the patching

if process_group == "gevent":
    from gunicorn.workers.ggevent import GeventWorker as Worker
else:
    from gunicorn.workers.sync import SyncWorker as Worker


_CLOCK_SECONDS = 0.5


def _read_integer(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if not value:
        return default
    if not value.isdecimal() or not 1 <= int(value) <= 1_000:
        raise SystemExit(f"{name} must be a whole number from 1 to 1000, not {value!r}")
    return int(value)


def _default_workers() -> int:
    """Return the default number of workers.

    A gevent worker handles hundreds of waiting requests. At least two sync workers run, so that a slow request does
    not block all others. More than three sync workers were not faster in measurements.
    """
    if process_group == "gevent":
        return 1
    # Not all systems report the processors that this process may use.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(usable, 2), 3)


class ServiceLogger(Logger):
    """A logger that writes gunicorn's messages as redacted lines of JSON, like all other logs."""

    def setup(self, cfg: Any) -> None:
        """Replace gunicorn's handlers with the application's handlers."""
        super().setup(cfg)
        # Imported here, so that an invalid setting is not reported as an unreadable configuration file.
        from marketplace.infra.logs import configure_logging  # noqa: PLC0415
        from marketplace.infra.settings import load_settings  # noqa: PLC0415

        configure_logging(load_settings())
        self.error_log.handlers.clear()
        self.error_log.propagate = True


worker_class = type(process_group, (ProblemWorker, Worker), {})
bind = os.environ.get("WEB_BIND", "127.0.0.1:8000")
workers = _read_integer("WEB_CONCURRENCY", _default_workers())
# More than the event streams that a process accepts.
worker_connections = 1_000
backlog = 512
proc_name = f"marketplace-{process_group}"

# The master imports the application before forking the workers. Workers share memory and start quickly. An error in
# the application or the settings ends the master with a message, instead of ending each worker repeatedly.
# Imports must not open connections. As a safeguard, post_fork drops inherited connections.
preload_app = True

# In seconds. A sync worker that serves a request for longer is restarted. The statement time-out (30 s) expires first.
# A gevent worker is restarted only if it sends no heartbeats, regardless of the duration of its requests.
timeout = 40
graceful_timeout = _read_integer("WEB_GRACEFUL_SECONDS", 20)
# In seconds, longer than the proxy keeps idle connections (2 minutes). Otherwise the proxy could send a request on a
# connection that is closing. Sync workers do not keep connections.
keepalive = 130

limit_request_line = 8_190
limit_request_fields = 64
limit_request_field_size = 8_190

# Behind a proxy, which replaces X-Forwarded-Proto, a request over TLS has the scheme https. The application itself
# decides which addresses of X-Forwarded-For to trust. No other header of the client may change scheme or path.
forwarded_allow_ips = "*" if os.environ.get("TRUSTED_PROXY_HOPS", "0").strip("0 ") else "127.0.0.1,::1"
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}
forwarder_headers = ""

# The application itself logs requests with route, user and duration.
accesslog = None
errorlog = "-"
logger_class = ServiceLogger
# Nothing uses the control socket. Signals are enough.
control_socket_disable = True
# Heartbeat files are in memory, because a slow disk can block a worker.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - no file name is guessed


def when_ready(_server: Any) -> None:
    """Load large libraries, and exempt the imported application from garbage collection in all workers.

    A full collection writes to each object that it visits. Each worker would get a copy of the memory that the workers
    share with the master. Collections of fewer objects are also faster.
    """
    if process_group == "gevent":
        from wsgi import services  # noqa: PLC0415 - the application is loaded after this file

        # The library takes seconds to load, which the first question would wait for.
        if services.language_model is not None:
            services.language_model.load()
    gc.collect()
    gc.freeze()


def post_fork(_server: Any, _worker: Any) -> None:
    """Drop connections opened before the fork, because two processes cannot share a connection."""
    from wsgi import services  # noqa: PLC0415 - the application is loaded after this file

    services.database.dispose()


def post_worker_init(worker: Any) -> None:
    """Send counts while the worker runs, and end the event streams of a worker that stops.

    Clients of a stream then connect to another process at once.
    """
    from wsgi import services  # noqa: PLC0415 - the application is loaded after this file

    # The first request must not wait for the database to tell the time, least of all a probe.
    measuring = threading.Thread(target=services.clock, name="clock", daemon=True)
    measuring.start()
    measuring.join(_CLOCK_SECONDS)
    services.live_streams.stop_when(lambda: not worker.alive)
    services.signal_sender.start()


def worker_exit(_server: Any, _worker: Any) -> None:
    """Send the last counts of a worker."""
    from wsgi import services  # noqa: PLC0415 - the application is loaded after this file

    services.signal_sender.stop()
