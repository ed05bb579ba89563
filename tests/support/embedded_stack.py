"""The complete stack of a single machine, started as ``make run`` does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

from marketplace.kernel.env_file import parse_variables
from sandbox.lock import is_locked, lock_holders
from sandbox.process import wait_until
from tests.support.installation import PROJECT

START_SECONDS = 180  # the first start creates the database and the demo data, possibly beside other tests
STOP_SECONDS = 60


class Stack:
    """A stack under test: port, directory, and the supervisor process while running."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.output = directory.with_name(f"{directory.name}.output")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def lock(self) -> Path:
        return self.directory / "stack.lock"

    def variables(self) -> dict[str, str]:
        return parse_variables((self.directory / "stack.env").read_text(encoding="utf-8"))

    def services(self) -> dict[str, int]:
        state: dict[str, Any] = json.loads((self.directory / "state.json").read_text(encoding="utf-8"))
        return dict(state["services"])

    def ports(self) -> dict[str, int]:
        return dict(json.loads((self.directory / "ports.json").read_text(encoding="utf-8")))

    def is_ready(self) -> bool:
        try:
            return requests.get(f"{self.base}/health/ready", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def start(self, **more: str) -> None:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                _command("up"),
                env=environment(self, **more),
                cwd=PROJECT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        process = self.process
        assert wait_until(
            lambda: process.poll() is not None or "Ctrl-C stops" in self.text(), timeout_seconds=START_SECONDS
        ), self.text()
        assert process.poll() is None, self.text()
        logs = {
            path.name: path.read_text(encoding="utf-8") for path in (self.directory / "logs").glob("*.log")
        }
        assert [name for name, text in logs.items() if "Traceback" in text] == []

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def stop(self) -> int:
        """Stop as Ctrl-C does, and return the exit status."""
        return self.end(signal.SIGINT)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(STOP_SECONDS)
        assert wait_until(lambda: not is_locked(self.lock), timeout_seconds=STOP_SECONDS), lock_holders(
            self.lock
        )
        return status


def environment(stack: Stack, **more: str) -> dict[str, str]:
    given = {"PATH": os.environ["PATH"], "PORT": str(stack.port), "DATA_DIR": str(stack.directory)}
    # Tests run beside others on slow machines.
    return {**given, "DATABASE_WAIT_SCALE": "20", **more}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sandbox.stack", *arguments]


def run_stack(stack: Stack, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*arguments),
        env=environment(stack, **more),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=STOP_SECONDS,
        check=False,
    )
