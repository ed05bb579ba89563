"""The test stand: embedded servers, the application and the floors under gunicorn, in a single directory."""

import base64
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import redis

from bench import identity, processes
from bench.figures import Cpu
from marketplace.infra.encryption import make_keyring, use_keyring
from sandbox.ports import HOST, reserve_ports
from sandbox.process import Process, ProcessFailedError, wait_until
from sandbox.servers import EmbeddedPostgres, EmbeddedProxy, EmbeddedValkey, http_status

PROJECT = Path(__file__).resolve().parents[1]
# The path of the endpoint that processes inbox rows.
INBOX_PATH = "/inbox"
_FIRST_PORT = 18_500
_READY_SECONDS = 30.0
# The maximum scale: the limiter counts every request and refuses no request.
_LIMIT_SCALE = "1000000"


class Stand:
    """All servers of the measurements, stopped at the end of the ``with`` block."""

    def __init__(self, directory: Path, *, tell: Callable[[str], None]) -> None:
        """Describe the servers. Entering the context starts PostgreSQL and Valkey.

        :param directory: an empty directory for data and logs
        :param tell: receives progress messages
        """
        self._directory = directory
        self._tell = tell
        self._stack = ExitStack()
        self.identity = identity.Identity()
        self.pin_key = secrets.token_hex(24)
        self.cursor_key = secrets.token_hex(24)
        self.data_key, self.index_key = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
        self.gateway_secret = f"sk_test_{secrets.token_hex(20)}"
        self.messaging_secret = secrets.token_hex(16)
        self._floors_file = directory / "floors.json"
        names = (
            *("database", "cache", "web", "waiting", "floors", "providers"),
            *("charging", "slow", "slow-gateway", "proxy", "model"),
        )
        reservation = reserve_ports(names, first=_FIRST_PORT, remembered={})
        self.ports = reservation.ports
        reservation.close()
        # Durable, as in the stack: a commit is on disk before the response.
        self.database = EmbeddedPostgres(
            directory / "postgresql", self.ports["database"], password=secrets.token_hex(16)
        )
        self.cache = EmbeddedValkey(directory / "valkey", self.ports["cache"], password=secrets.token_hex(16))
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> "Stand":
        # When started by root, PostgreSQL runs as another user, who must be able to traverse the directory.
        self._directory.chmod(0o711)
        try:
            self._tell("starting PostgreSQL and Valkey")
            for server in (self.database, self.cache):
                self._stack.callback(server.stop)
                server.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the application's processes."""
        return {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")},
            "ENVIRONMENT": "embedded",
            "PUBLIC_BASE_URL": "http://marketplace.example",
            "DATABASE_URL": self.database.url,
            "REDIS_URL": self.cache.url,
            "GATEWAY_URL": f"http://{HOST}:{self.ports['providers']}/gateway",
            "SMS_URL": f"http://{HOST}:{self.ports['providers']}/sms",
            "GATEWAY_SECRET_KEY": self.gateway_secret,
            "MESSAGING_APP_SECRET": self.messaging_secret,
            "IDENTITY_ISSUER": identity.ISSUER,
            "IDENTITY_AUDIENCE": identity.AUDIENCE,
            "IDENTITY_ALGORITHMS": "ES256",
            "IDENTITY_JWKS_URL": f"http://{HOST}:{self.ports['floors']}/keys",
            "DELIVERY_PIN_KEY": self.pin_key,
            "CURSOR_KEY": self.cursor_key,
            "DATA_ENCRYPTION_KEYS": f"bench:{self.data_key}",
            "BLIND_INDEX_KEY": self.index_key,
            "TRUSTED_PROXY_HOPS": "1",
            "RATE_LIMIT_SCALE": _LIMIT_SCALE,
            "LOG_LEVEL": "INFO",
            "BENCH_FLOORS_FILE": str(self._floors_file),
        }

    def migrate(self) -> None:
        """Create the tables."""
        # Benchmarks load encrypted values.
        use_keyring(make_keyring(f"bench:{self.data_key}", self.index_key))
        self._run("migrate", "-c", "from commands.main import main; main(['db', 'upgrade'])")

    def run_periodic(self, name: str) -> None:
        """Run a periodic task of the application once."""
        self._run(name, "-c", f"from commands.main import main; main(['periodic', 'run', {name!r}])")

    def record(self, calls: str) -> str:
        """Serve calls in a separate process and record the SQL.

        :param calls: JSON, the input of ``bench.recording``
        :return: JSON, the output of ``bench.recording``
        """
        given, taken = self._directory / "calls.json", self._directory / "recorded.json"
        given.write_text(calls, encoding="utf-8")
        self._run("recording", "-m", "bench.recording", str(given), str(taken))
        return taken.read_text(encoding="utf-8")

    def empty_cache(self) -> None:
        """Empty the cache."""
        with redis.Redis.from_url(self.cache.url, socket_timeout=5) as client:
            client.flushdb()

    def start_web(self) -> None:
        """Start the application's sync workers."""
        self._serve("web", "gunicorn.conf.py", "wsgi:app", WORKER_CLASS="sync")

    def start_limiter(self) -> None:
        """Start the routes of ``bench.limiter`` in place of the application."""
        self._serve("web", "bench/gunicorn_floors.py", "bench.limiter:app", WORKER_CLASS="sync")

    def start_proxy(self) -> EmbeddedProxy:
        """Start the proxy in front of the application's two groups."""
        proxy = EmbeddedProxy(
            self._directory / "proxy",
            self.ports["proxy"],
            caddyfile=PROJECT / "deploy" / "Caddyfile",
            environment={
                "SITE_ADDRESS": f"http://:{self.ports['proxy']}",
                "BIND_ADDRESS": HOST,
                "API_UPSTREAM": f"{HOST}:{self.ports['web']}",
                "WAITING_UPSTREAM": f"{HOST}:{self.ports['waiting']}",
                "MEDIA_UPSTREAM": f"{HOST}:{self.ports['slow-gateway']}",
            },
        )
        self._stack.callback(proxy.stop)
        proxy.start()
        return proxy

    def start_waiting(self) -> None:
        """Start two gevent workers of the application: with the sandbox gateway and with the slow gateway."""
        self.start_providers()
        # As deployed: a single process with enough database connections for many concurrent requests.
        gevent = {"WORKER_CLASS": "gevent", "WEB_CONCURRENCY": "1", "DATABASE_POOL_SIZE": "10"}
        self._serve("waiting", "gunicorn.conf.py", "wsgi:app", **gevent)
        slow = f"http://{HOST}:{self.ports['slow-gateway']}/gateway"
        self._serve("slow", "gunicorn.conf.py", "wsgi:app", **gevent, GATEWAY_URL=slow)

    def start_model(self, *, tokens: int, tokens_per_second: float) -> None:
        """Start a language model with answers of equal length and pace."""
        arguments = (str(self.ports["model"]), str(tokens), str(tokens_per_second))
        self._launch("model", "-m", "bench.paced_model", *arguments)

    def start_assistant(self) -> None:
        """Start a gevent worker of the application with that language model."""
        model = f"http://{HOST}:{self.ports['model']}/v1"
        gevent = {"WORKER_CLASS": "gevent", "WEB_CONCURRENCY": "1", "DATABASE_POOL_SIZE": "10"}
        self._serve("waiting", "gunicorn.conf.py", "wsgi:app", **gevent, ASSISTANT_URL=model)

    def start_providers(self, **more: str) -> None:
        """Start the sandbox's providers.

        :param more: additional environment variables
        """
        data = self._directory / "providers"
        data.mkdir(exist_ok=True)
        port = str(self.ports["providers"])
        self._launch(
            *("providers", "-m", "sandbox.providers", "--host", HOST, "--port", port, "--data", str(data)),
            **more,
        )

    def start_charging(self, *, workers: int | None = None) -> None:
        """Start the application with the endpoint that processes inbox rows.

        :param workers: number of processes, or None for the default
        """
        more = {} if workers is None else {"WEB_CONCURRENCY": str(workers)}
        self._serve("charging", "gunicorn.conf.py", "bench.charging:app", WORKER_CLASS="sync", **more)

    def start_worker(self, queue: str, number: int) -> None:
        """Start a worker of a queue.

        :param number: distinguishes workers of the same queue
        """
        self._launch(f"worker-{queue}-{number}", "-m", "tasks.worker", queue)

    def start_floors(self, description: str) -> None:
        """Start the floors under the same gunicorn settings as the application's sync workers.

        :param description: JSON from ``bench.floors.describe``; a running server is restarted
        """
        self._floors_file.write_text(description, encoding="utf-8")
        running = self._processes.pop("floors", None)
        if running is not None:
            running.stop()
        self._serve("floors", "bench/gunicorn_floors.py", "bench.floors:app", WORKER_CLASS="sync")

    def process_id(self, name: str) -> int:
        """Return the id of a server's main process.

        :raises ProcessFailedError: the server has ended
        """
        process = self._processes[name]
        if not process.running or process.process_id is None:
            raise process.failure("ended")
        return process.process_id

    def log(self, name: str) -> Path:
        """Return the log file of a server."""
        return self._directory / f"{name}.log"

    def cpu(self, name: str) -> Cpu:
        """Read the processor time of a web server, PostgreSQL and Valkey."""
        database, cache = self.database.process, self.cache.process
        if database is None or cache is None or database.process_id is None or cache.process_id is None:
            raise ProcessFailedError("PostgreSQL and Valkey are not running")
        return processes.snapshot(
            web=self.process_id(name), database=database.process_id, cache=cache.process_id
        )

    def _serve(self, name: str, configuration: str, application: str, **more: str) -> None:
        self._launch(
            name,
            *("-m", "gunicorn", "-c", str(PROJECT / configuration), application),
            WEB_BIND=f"{HOST}:{self.ports[name]}",
            **more,
        )
        process, port = self._processes[name], self.ports[name]
        path = "/flask" if name == "floors" else "/health/live"
        ready = wait_until(
            lambda: not process.running or http_status(port, path) == 200,
            timeout_seconds=_READY_SECONDS,
            pause=time.sleep,
        )
        if not ready or not process.running:
            raise process.failure("did not start")

    def _launch(self, name: str, *arguments: str, **more: str) -> None:
        self._processes[name] = self._python(name, arguments, more)
        self._stack.callback(self._processes[name].stop)
        self._processes[name].launch()

    def _run(self, name: str, *arguments: str) -> None:
        process = self._python(name, arguments, {})
        self._stack.callback(process.stop)
        process.launch()
        if not wait_until(lambda: not process.running, timeout_seconds=120.0):
            process.stop()
        if process.exit_status != 0:
            raise process.failure("failed")

    def _python(self, name: str, arguments: tuple[str, ...], more: Mapping[str, str]) -> Process:
        return Process(
            name,
            [sys.executable, *arguments],
            log_path=self.log(name),
            directory=PROJECT,
            environment=self.variables | dict(more),
        )
