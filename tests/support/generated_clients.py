"""Clients generated from the served OpenAPI document: generate, check types, and play a purchase."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import requests

from tests.support.embedded_stack import Stack
from tests.support.installation import PROJECT

CLIENTS = PROJECT / "tests" / "clients"
BOUND_SECONDS = 240  # on a machine that runs other tests
INTERPRETER = Path(sys.executable)


def save_document(stack: Stack, directory: Path) -> Path:
    """Save the served document in a directory."""
    path = directory / "openapi.json"
    path.write_bytes(requests.get(f"{stack.base}/openapi.json", timeout=BOUND_SECONDS).content)
    return path


def run(directory: Path, *command: str | Path) -> str:
    """Run a command in a directory and return the output.

    Local packages are visible, the project's are not.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        env={"PATH": f"{INTERPRETER.parent}:{os.environ['PATH']}", "HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def purchase_arguments(stack: Stack) -> list[str]:
    """Return the addresses of API and gateway, and tokens of the buyer and the vendor."""
    variables = stack.variables()
    tokens = [
        requests.post(
            f"{variables['IDENTITY_ISSUER']}/sandbox/token", json={"persona": persona}, timeout=BOUND_SECONDS
        ).json()["access_token"]
        for persona in ("buyer", "vendor")
    ]
    return [stack.base, variables["GATEWAY_URL"], *tokens]


def without_casts(source: str, directory: Path) -> Path:
    """Copy a purchase beside the generated client. The purchase must not hide types from the checker."""
    text = (CLIENTS / source).read_text(encoding="utf-8")
    hidden = ("cast(", "Any", "type: ignore", " as any", " as unknown", "ts-ignore", "ts-expect-error")
    assert [word for word in hidden if word in text] == []
    return Path(shutil.copy(CLIENTS / source, directory))


def check_types(purchase: Path, interpreter: Path) -> None:
    """Check the types of a purchase against the generated client, which itself need not be strict."""
    checks = ("--strict", "--follow-imports=silent", f"--python-executable={interpreter}")
    run(purchase.parent, INTERPRETER, "-m", "mypy", *checks, purchase)
