"""Command ``make demo`` without services. The purchase itself is tested in test_stack.py."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.installation import PROJECT

DEMO_SECONDS = 60


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


def test_demo_names_the_unavailable_service(tmp_path: Path) -> None:
    nowhere = {"GATEWAY_URL": "http://127.0.0.1:1/gateway", "IDENTITY_ISSUER": "http://127.0.0.1:1/identity"}
    nowhere["SMS_URL"] = "http://127.0.0.1:1/sms"
    done = play(DATA_DIR=str(tmp_path), PUBLIC_BASE_URL="http://127.0.0.1:1", **nowhere)
    assert done.returncode == 1
    assert "http://127.0.0.1:1 does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    done = play(DATA_DIR=str(tmp_path), PUBLIC_BASE_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert "GATEWAY_URL is not known" in done.stderr
