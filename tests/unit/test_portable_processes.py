"""Processes without the features of Linux, as on macOS: a watchdog, and the number of processors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sandbox import capabilities
from sandbox.process import wait_until
from tests.support.probes import WAIT_SECONDS

PROJECT = Path(__file__).parents[2]
PARENT = """
import sys, time
from pathlib import Path
from sandbox.process import Process
from sandbox.watchdog import watchdog_of
import os
directory = Path(sys.argv[1])
made = [
    Process(name, [sys.executable, "-c", "import time; time.sleep(60)"], log_path=directory / name, directory=directory)
    for name in ("stopped", "web", "worker")
]
for process in made:
    process.launch()
assert made[0].stop()
print(watchdog_of(os.getpid())._process.pid, *(process.process_id for process in made[1:]), flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""
FEATURES = """
from sandbox.capabilities import HAS_AFFINITY, HAS_PARENT_DEATH_SIGNAL, HAS_WAITID
print(HAS_PARENT_DEATH_SIGNAL, HAS_WAITID, HAS_AFFINITY)
"""


@pytest.mark.parametrize("end", ["kill", "leave"])
def test_watchdog_ends_the_children_of_an_ended_process(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), "wait" if end == "kill" else ""]
    variables = os.environ | {"SANDBOX_PORTABLE": "1", "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=variables) as parent:
        assert parent.stdout is not None
        numbers = [int(number) for number in parent.stdout.readline().split()]
        if end == "kill":
            # A stop request to all processes does not end the watchdog first.
            os.kill(numbers[0], signal.SIGTERM)
            parent.kill()
    assert len(numbers) == 3
    assert wait_until(
        lambda: not any(psutil.pid_exists(number) for number in numbers), timeout_seconds=WAIT_SECONDS
    )


def test_all_processors_count_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "HAS_AFFINITY", False)
    assert capabilities.usable_processors() == os.cpu_count()


def test_portable_run_has_none_of_the_features_that_have_a_substitute() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", FEATURES],
        cwd=PROJECT,
        env=os.environ | {"SANDBOX_PORTABLE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["False"] * 3
