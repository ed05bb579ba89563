"""Clients generated from the served OpenAPI document play a whole purchase, with types checked strictly.

``make test`` generates the client of openapi-python-client. ``make clients`` also generates the clients of
openapi-generator and @hey-api/openapi-ts.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from sandbox.process import wait_until
from tests.support.embedded_stack import START_SECONDS, Stack
from tests.support.installation import PROJECT
from tests.support.ports import free_port

CLIENTS = PROJECT / "tests" / "clients"
TOOLS = CLIENTS / "node_modules"
GENERATORS = PROJECT / ".venv" / "generators" / "bin"
BOUND_SECONDS = 240  # on a machine that runs other tests
INTERPRETER = Path(sys.executable)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    started = Stack(tmp_path_factory.mktemp("clients") / "data", free_port("stack"))
    started.start()
    assert wait_until(started.is_ready, timeout_seconds=START_SECONDS)
    yield started
    assert started.stop() == 0


@pytest.fixture
def document(stack: Stack, tmp_path: Path) -> Path:
    """The file of the served document, in a directory of its own."""
    path = tmp_path / "openapi.json"
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


def test_client_of_openapi_python_client_plays_a_purchase(stack: Stack, document: Path) -> None:
    directory = document.parent
    package = "campus_marketplace_client"
    run(
        directory,
        *("openapi-python-client", "generate", "--path", document, "--meta", "none"),
        *("--output-path", package, "--fail-on-warning"),
    )
    purchase = without_casts("purchase_openapi_python_client.py", directory)

    check_types(purchase, INTERPRETER)
    said = run(directory, INTERPRETER, purchase, *purchase_arguments(stack))

    assert said.startswith("bought ")


@pytest.mark.deep(only=True)
@pytest.mark.skipif(not GENERATORS.is_dir(), reason="openapi-generator is missing: make clients")
def test_client_of_openapi_generator_plays_a_purchase(stack: Stack, document: Path) -> None:
    directory = document.parent
    run(
        directory,
        *(GENERATORS / "openapi-generator-cli", "generate", "-i", document, "-g", "python", "-o", "."),
        "--additional-properties=packageName=marketplace_api,generateSourceCodeOnly=true",
        "--global-property=apiTests=false,modelTests=false,apiDocs=false,modelDocs=false",
    )
    purchase = without_casts("purchase_openapi_generator.py", directory)

    check_types(purchase, GENERATORS / "python")
    said = run(directory, GENERATORS / "python", purchase, *purchase_arguments(stack))

    assert said.startswith("bought ")


@pytest.mark.deep(only=True)
@pytest.mark.skipif(not TOOLS.is_dir(), reason="@hey-api/openapi-ts is missing: make clients")
def test_client_of_openapi_ts_plays_a_purchase(stack: Stack, document: Path) -> None:
    directory = document.parent
    (directory / "node_modules").symlink_to(TOOLS)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(CLIENTS / name, directory)
    without_casts("purchase.ts", directory)
    run(directory, TOOLS / ".bin" / "openapi-ts", "-i", document, "-o", "client", "--silent")

    run(directory, TOOLS / ".bin" / "tsc", "--project", ".")
    said = run(directory, "node", "built/purchase.js", *purchase_arguments(stack))

    assert said.startswith("bought ")
