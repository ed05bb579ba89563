"""The stack on which the demo runs, either already running or started for the demo."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from marketplace.kernel.env_file import parse_variables
from sandbox.configuration import PROJECT, Layout, read_layout, read_port
from sandbox.demo.narrator import DemoFailedError, Narrator
from sandbox.lock import is_locked
from sandbox.process import Process, wait_until
from sandbox.servers import http_status

_START_SECONDS = 300.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Target:
    """The addresses of the API, the sandbox gateway, the identity provider and the SMS gateway."""

    api: str
    gateway: str
    issuer: str
    sms: str


@contextmanager
def found_or_started(environ: Mapping[str, str], narrator: Narrator) -> Iterator[Target]:
    """Find a running stack, or start a stack and stop it afterwards.

    :raises DemoFailedError: no stack is available
    """
    layout = read_layout(environ)
    if environ.get("PUBLIC_BASE_URL"):
        yield _target(environ, layout)
    elif is_locked(layout.lock):
        _wait_until_ready(layout, None)
        yield _target(environ, layout)
    else:
        layout.make()
        process = Process(
            "stack",
            [sys.executable, "-m", "sandbox.stack", "up"],
            log_path=layout.logs / "demo-stack.log",
            directory=PROJECT,
            environment={**os.environ, **environ},
        )
        narrator.say(
            f"No stack is running in {layout.root}. Starting one for the demo (the first start loads demo data)."
        )
        started = time.monotonic()
        process.launch()
        try:
            _wait_until_ready(layout, process)
            narrator.say(f"The stack is ready after {time.monotonic() - started:.1f} s.")
            yield _target(environ, layout)
        finally:
            narrator.say("\nStopping the stack. Use `make run` to keep one running.")
            process.stop(_STOP_SECONDS)


def _target(environ: Mapping[str, str], layout: Layout) -> Target:
    """Read each address from the environment, or else from the stack's data directory."""
    left: dict[str, str] = {}
    if layout.environment.is_file():
        left = parse_variables(layout.environment.read_text(encoding="utf-8"))
    given = {name: value for name, value in environ.items() if value}
    try:
        api, gateway, issuer, sms = (
            (given.get(name) or left[name]).rstrip("/")
            for name in ("PUBLIC_BASE_URL", "GATEWAY_URL", "IDENTITY_ISSUER", "SMS_URL")
        )
    except KeyError as error:
        raise DemoFailedError(
            f"{error.args[0]} is not known. Set it together with PUBLIC_BASE_URL, or set DATA_DIR to the stack's"
            " data directory."
        ) from error
    return Target(api, gateway, issuer, sms)


def _wait_until_ready(layout: Layout, process: Process | None) -> None:
    """Wait until the stack is ready.

    :param process: the stack's process, if the demo started it
    """

    def is_ready() -> bool:
        return layout.state.is_file() and http_status(_port(layout), "/health/ready") == 200

    def is_over() -> bool:
        return process is not None and not process.running

    ready = wait_until(
        lambda: is_over() or is_ready(),
        timeout_seconds=_START_SECONDS,
        pause=lambda _seconds: time.sleep(_POLL_SECONDS),
    )
    if process is not None and (is_over() or not ready):
        raise DemoFailedError(str(process.failure("could not start")))
    if not ready:
        raise DemoFailedError(f"The stack in {layout.root} is not ready. Run `make status` for details.")


def _port(layout: Layout) -> int:
    try:
        port = json.loads(layout.state.read_text(encoding="utf-8"))["port"]
    except (OSError, ValueError, KeyError):
        return read_port(os.environ)  # the file is being written or removed now
    return int(port)
