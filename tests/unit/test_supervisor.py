"""Supervisor of the embedded stack: the stack stops when a server ends."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sandbox.configuration import StackError
from sandbox.process import Process
from sandbox.reporting import Console
from sandbox.servers.base import Server
from sandbox.supervisor import Supervisor

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


class SleepingServer(Server):
    """A server that only sleeps."""

    name = "postgresql"
    url = ""

    def prepare(self) -> Process:
        return Process(self.name, SLEEP, log_path=self.log_path, directory=self.directory)

    def is_ready(self) -> bool:
        return True


def test_killed_database_ends_the_stack_and_stops_other_processes(tmp_path: Path) -> None:
    supervisor = Supervisor(Console(), pause=time.sleep)
    log_path = tmp_path / "log"
    supervisor.add_server(SleepingServer(tmp_path, log_path=log_path), before_binding=lambda: None)
    web = Process("web", SLEEP, log_path=log_path, directory=tmp_path)
    supervisor.add_service(web)
    try:
        supervisor.wait_for_servers()
        os.kill(supervisor.process_ids()["postgresql"], signal.SIGKILL)
        with pytest.raises(StackError, match="postgresql ended, and the stack cannot run without it"):
            supervisor.watch(on_change=lambda: None)
    finally:
        supervisor.stop()
    assert not web.running
