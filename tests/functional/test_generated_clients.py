"""Clients of openapi-generator and @hey-api/openapi-ts play a whole purchase, with types checked strictly.

``make clients`` generates them. The client of openapi-python-client plays in ``test_stack.py``.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.process import wait_until
from tests.support.embedded_stack import START_SECONDS, Stack
from tests.support.generated_clients import (
    CLIENTS,
    check_types,
    purchase_arguments,
    run,
    save_document,
    without_casts,
)
from tests.support.installation import PROJECT
from tests.support.ports import free_port

TOOLS = CLIENTS / "node_modules"
GENERATORS = PROJECT / ".venv" / "generators" / "bin"


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
    return save_document(stack, tmp_path)


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
