"""The proxy before both groups of web processes of a site, and the group of routes that wait."""

import sys
from pathlib import Path

from sandbox.process import Process
from sandbox.servers import EmbeddedProxy
from tests.support.servers import PROJECT
from tests.support.service_processes import ServiceProcesses


def make_waiting_process(site: ServiceProcesses, *, port: int) -> Process:
    """Make the gevent process of a site, not launched."""
    return Process(
        "waiting",
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"],
        log_path=site.directory / "waiting.log",
        directory=PROJECT,
        environment=site.environment
        | {"WORKER_CLASS": "gevent", "WEB_CONCURRENCY": "1", "WEB_BIND": f"127.0.0.1:{port}"},
    )


def make_proxy(
    directory: Path, *, port: int, sync: int, gevent: int, media: int, **environment: str
) -> EmbeddedProxy:
    """Make a proxy before the ports of both groups and of the object storage, not started."""
    return EmbeddedProxy(
        directory,
        port,
        caddyfile=PROJECT / "deploy" / "Caddyfile",
        environment={
            "SITE_ADDRESS": f"http://:{port}",
            "BIND_ADDRESS": "127.0.0.1",
            "API_UPSTREAM": f"127.0.0.1:{sync}",
            "WAITING_UPSTREAM": f"127.0.0.1:{gevent}",
            "MEDIA_UPSTREAM": f"127.0.0.1:{media}",
            **environment,
        },
    )
