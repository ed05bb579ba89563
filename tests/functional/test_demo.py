"""``make demo``: it starts a stack where none runs, plays the purchase, and fails where something is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

from sandbox.lock import is_locked
from tests.support.installation import PROJECT
from tests.support.ports import free_port

DEMO_SECONDS = 240  # with a first start of the stack in it, maybe beside other tests


def play(**variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "sandbox.demo"],
        cwd=PROJECT,
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )


def test_it_plays_the_purchase_on_a_stack_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    done = play(DATA_DIR=str(directory), PORT=str(free_port("stack")))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    assert "\x1b" not in done.stdout  # plain in a pipe
    assert [int(number) for number in re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE)] == list(
        range(1, 17)
    )
    for told in (
        "POST /api/orders ",
        '"status": "paid_escrow", "escrowStatus": "held"',
        '"status": "delivered", "escrowStatus": "released"',
        "ledger debit escrow",
    ):
        assert told in done.stdout
    assert re.search(
        r"^Order CM-\d+: the buyer paid NGN [\d,.]+, the store is owed", done.stdout, re.MULTILINE
    )
    assert not is_locked(directory / "stack.lock")  # what it started, it stopped


def test_it_says_what_is_wrong(tmp_path: Path) -> None:
    nowhere = {"GATEWAY_URL": "http://127.0.0.1:1/gateway", "IDENTITY_ISSUER": "http://127.0.0.1:1/identity"}
    done = play(DATA_DIR=str(tmp_path), PUBLIC_BASE_URL="http://127.0.0.1:1", **nowhere)
    assert done.returncode == 1
    assert "http://127.0.0.1:1 does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    done = play(DATA_DIR=str(tmp_path), PUBLIC_BASE_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert "GATEWAY_URL is not known" in done.stderr
