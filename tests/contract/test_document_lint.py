"""Linters find no error and no warning in the OpenAPI document.

``make test`` installs redocly and spectral if Node.js and npm are at hand. The rules that matter to generators are also
checked without Node.js.
"""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.installation import PROJECT

FOLDER = PROJECT / "tests" / "clients"
PROGRAMS = FOLDER / "node_modules" / ".bin"
BOUND_SECONDS = 240  # on a machine that runs other tests
# A machine without Node.js skips the linters. A CI that cannot run them must not pass.
needs_node = pytest.mark.skipif(
    not PROGRAMS.is_dir() and not os.environ.get("CI"), reason="the linters are missing: make clients"
)


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    """The document as served."""
    served: dict[str, Any] = app.test_client().get("/openapi.json").get_json()
    return served


@pytest.fixture(scope="module")
def document_file(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def lint(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAMS / program, "lint", *arguments],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "REDOCLY_TELEMETRY": "off"},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )


@needs_node
def test_redocly_finds_no_error_and_no_warning(document_file: Path) -> None:
    done = lint("redocly", "--config", FOLDER / "redocly.yaml", "--format=json", document_file)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}


@needs_node
def test_spectral_finds_no_error_and_no_warning(document_file: Path) -> None:
    done = lint(
        *("spectral", "--ruleset", FOLDER / "spectral.yaml", "--fail-severity=hint"),
        *("--fail-on-unmatched-globs", document_file),
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Yield all operations with their path and all parameters."""
    components = document["components"]["parameters"]
    for path, item in document["paths"].items():
        for operation in (item[method] for method in item.keys() & {"get", "post", "put", "patch", "delete"}):
            parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
            yield (
                path,
                operation,
                [
                    components[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter
                    for parameter in parameters
                ],
            )


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from references(inner)


def test_path_parameters_are_those_of_the_path(document: dict[str, Any]) -> None:
    for path, _operation, parameters in operations(document):
        assert not path.endswith("/")
        assert "?" not in path
        in_path = [parameter for parameter in parameters if parameter["in"] == "path"]
        assert {parameter["name"] for parameter in in_path} == set(re.findall(r"{(\w+)}", path)), path
        assert all(parameter["required"] for parameter in in_path)
        names = Counter((parameter["in"], parameter["name"]) for parameter in parameters)
        assert max(names.values(), default=1) == 1, path


def test_operations_have_a_summary_one_known_tag_security_and_answers(document: dict[str, Any]) -> None:
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    schemes = document["components"]["securitySchemes"].keys()

    used = set()
    for path, operation, _parameters in operations(document):
        [tag] = operation["tags"]
        used.add(tag)
        assert operation["summary"], path
        assert {name for choice in operation["security"] for name in choice} <= schemes
        statuses = sorted(operation["responses"])
        assert re.match(r"[23]\d\d", statuses[0]), path
        assert any(status.startswith("4") for status in statuses), path
    assert used == tags.keys()
    assert all(tags.values())


def test_information_names_license_contact_and_server(document: dict[str, Any]) -> None:
    information = document["info"]

    assert information["license"].keys() >= {"name"}
    assert information["license"].keys() & {"url", "identifier"}
    assert information["contact"]
    assert information["description"]
    assert [server for server in document["servers"] if server["url"].endswith("/")] == []


def test_references_lead_to_components_and_no_component_is_unused(document: dict[str, Any]) -> None:
    defined = {
        f"#/components/{kind}/{name}"
        for kind, components in document["components"].items()
        if kind != "securitySchemes"
        for name in components
    }

    assert set(references(document)) == defined


def test_enumerations_have_no_duplicates_and_the_type_of_their_values(document: dict[str, Any]) -> None:
    enumerations = {
        name: schema for name, schema in document["components"]["schemas"].items() if "enum" in schema
    }

    assert len(enumerations) >= 40
    for name, schema in enumerations.items():
        assert len(set(schema["enum"])) == len(schema["enum"]), name
        assert schema["type"] == "string", name
        assert all(isinstance(value, str) for value in schema["enum"]), name
