"""Supervisor of the embedded stack: ended servers and services are restarted, but not for ever."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.configuration import StackError
from sandbox.process import Process
from sandbox.reporting import Console
from sandbox.servers.base import Server
from sandbox.supervisor import Supervisor

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
FAIL = [sys.executable, "-c", "raise SystemExit('the disk is full')"]


class FakeServer(Server):
    """A server that sleeps in the first processes, and then ends at once."""

    name = "postgresql"
    url = ""

    def __init__(self, directory: Path, *, sound_launches: int) -> None:
        super().__init__(directory, log_path=directory / "postgresql.log")
        self.launches = 0
        self._sound_launches = sound_launches

    def prepare(self) -> Process:
        self.launches += 1
        command = SLEEP if self.launches <= self._sound_launches else FAIL
        return Process(self.name, command, log_path=self.log_path, directory=self.directory)

    def is_ready(self) -> bool:
        return True


class _ChangedError(Exception):
    """The supervisor reported a change."""


def _on_change() -> None:
    raise _ChangedError


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor(Console(), pause=lambda _: time.sleep(0.01), restart_delays_seconds=(0.01, 0.01))
    yield made
    made.stop()


def test_killed_server_is_restarted_while_other_processes_continue(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    server = FakeServer(tmp_path, sound_launches=2)
    supervisor.add_server(server, before_binding=lambda: None)
    web = Process("web", SLEEP, log_path=tmp_path / "web.log", directory=tmp_path)
    supervisor.add_service(web)
    supervisor.wait_for_servers()
    before = supervisor.process_ids()

    os.kill(before["postgresql"], signal.SIGKILL)
    with pytest.raises(_ChangedError):
        supervisor.watch(on_change=_on_change)

    after = supervisor.process_ids()
    assert after["postgresql"] != before["postgresql"]
    assert after["web"] == before["web"]
    assert server.launches == 2


def test_server_that_ends_again_and_again_ends_the_stack_with_its_log(
    supervisor: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer(tmp_path, sound_launches=1)
    supervisor.add_server(server, before_binding=lambda: None)

    os.kill(supervisor.process_ids()["postgresql"], signal.SIGKILL)
    with pytest.raises(StackError) as ended:
        supervisor.watch(on_change=lambda: None)

    assert server.launches == 3
    assert "postgresql ended again after 2 restarts, so the stack stops (exit status 1)" in str(ended.value)
    assert str(server.log_path) in str(ended.value)
    assert "the disk is full" in str(ended.value)
    assert "restart 2 of 2" in capsys.readouterr().out


def test_service_that_ends_again_and_again_ends_the_stack(supervisor: Supervisor, tmp_path: Path) -> None:
    web = Process("web", FAIL, log_path=tmp_path / "web.log", directory=tmp_path)
    supervisor.add_service(web)
    with pytest.raises(StackError, match="web ended again after 2 restarts"):
        supervisor.watch(on_change=lambda: None)
