"""Descriptions and examples in the OpenAPI document: complete, and valid by their schemas."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from flask import Flask
from marshmallow import fields

from blueprints.areas import contracts
from blueprints.http.field_docs import describe_field, doc
from blueprints.http.fields import Schema, snake_case

Node = dict[str, Any]
_METHODS = ("get", "post", "put", "delete")
_CONTRACTS = contracts()


@pytest.fixture(scope="module")
def document(app: Flask) -> Node:
    found: Node = app.test_client().get("/openapi.json").get_json()
    return found


@pytest.fixture(scope="module")
def components(document: Node) -> Node:
    """The components. The schemas of OpenAPI 3.1 are JSON Schema."""
    found: Node = document["components"]
    return found


def faults_of(examples: dict[str, tuple[Any, Node]], components: Node) -> list[str]:
    """Validate examples by their schemas, all at once because compiling the components takes long."""
    schema = {
        "properties": {name: schema for name, (_, schema) in examples.items()},
        "components": components,
    }
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    instance = {name: example for name, (example, _) in examples.items()}
    return [f"{list(error.instance_path)}: {error.message}" for error in validator.iter_errors(instance)]


def operations_of(document: Node) -> Iterator[tuple[str, Node, list[Node]]]:
    """List the operations with names and parameters, apart from shared parameters."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                operation = item[method]
                parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
                own = [parameter for parameter in parameters if "$ref" not in parameter]
                yield f"{method.upper()} {path}", operation, own


def properties_of(document: Node) -> Iterator[tuple[str, Node]]:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            yield f"{name}.{field}", described
    for name, operation, _ in operations_of(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for field, described in content["schema"].get("properties", {}).items():
                yield f"{name} {field}", described


def test_every_field_has_a_description_and_a_valid_example(document: Node, components: Node) -> None:
    found = dict(properties_of(document))
    assert len(found) > 1_500

    undescribed = [name for name, described in found.items() if not described.get("description")]
    assert not undescribed, "Add metadata=doc(...):\n" + "\n".join(undescribed)
    without_example = [name for name, described in found.items() if "example" not in described]
    assert not without_example, "Add an example to metadata=doc(...):\n" + "\n".join(without_example)
    examples = {name: (described["example"], described) for name, described in found.items()}
    invalid = faults_of(examples, components)
    assert not invalid, "\n".join(invalid)


def test_every_parameter_has_a_description_and_a_valid_example(document: Node, components: Node) -> None:
    found = {
        f"{name} {parameter['name']}": parameter
        for name, _, parameters in operations_of(document)
        for parameter in parameters
    } | document["components"].get("parameters", {})

    incomplete = [
        name
        for name, parameter in found.items()
        if not parameter.get("description") or "example" not in parameter
    ]
    assert not incomplete, "Add a description and an example:\n" + "\n".join(incomplete)
    examples = {name: (parameter["example"], parameter["schema"]) for name, parameter in found.items()}
    invalid = faults_of(examples, components)
    assert not invalid, "\n".join(invalid)


def test_every_body_and_response_has_a_valid_example(document: Node, components: Node) -> None:
    examples: dict[str, tuple[Any, Node]] = {}
    for name, operation, _ in operations_of(document):
        parts = {"body": operation.get("requestBody", {"content": {}})} | {
            status: response for status, response in operation["responses"].items() if status.startswith("2")
        }
        assert len(parts) >= 2, f"{name} describes no success"
        for part, described in parts.items():
            for content_type, content in described["content"].items():
                assert content.get("example") not in (None, {}), f"{name} {part} has no example"
                if content_type == "application/json":
                    examples[f"{name} {part}"] = (content["example"], content["schema"])

    invalid = faults_of(examples, components)
    assert not invalid, "\n".join(invalid)


def test_examples_of_bodies_and_responses_satisfy_the_rules_of_the_schemas(document: Node) -> None:
    """The schemas' own rules go beyond the document: fields that exclude each other, and links between fields."""
    operations = {
        (name.partition(" ")[0], snake_case(name.partition(" ")[2])): operation
        for name, operation, _ in operations_of(document)
    }
    faults = []
    for contract in _CONTRACTS:
        operation = operations[contract.method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", contract.path)]
        if contract.body is not None:
            example = operation["requestBody"]["content"]["application/json"]["example"]
            faults += [(contract.name, fault) for fault in contract.body.validate(example).items()]
        if contract.reply is not None:
            content = operation["responses"][str(contract.status)]["content"]
            example = content["application/json"]["example"]
            data = example["data"] if contract.enveloped else example
            faults += [(contract.name, fault) for fault in contract.reply.validate(data).items()]

    assert not faults


def test_every_operation_has_a_description(document: Node) -> None:
    for name, operation, _ in operations_of(document):
        assert operation["summary"].endswith("."), name
        assert operation["description"], name


def test_field_without_a_description_is_found() -> None:
    """A field of a new name gets neither a description nor an example from elsewhere."""

    class New(Schema):
        unheard_of = fields.String()
        described = fields.String(metadata=doc("A new field.", "value"))

    schema = New()
    assert describe_field(schema.fields["unheard_of"], {}) == {}
    assert describe_field(
        schema.fields["described"], {"description": "A new field.", "example": "value"}
    ) == {"example": "value"}
