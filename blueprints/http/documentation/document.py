"""The OpenAPI document of the areas, made when it is first asked for."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from apispec import BasePlugin
from flask import Flask
from flask_smorest import Api

from blueprints.http import examples
from blueprints.http.contract import Contract
from blueprints.http.documentation import texts
from blueprints.http.documentation.converter import SchemaPlugin
from blueprints.http.documentation.operations import OperationDescriber
from blueprints.http.envelope import API_VERSION


class DocumentedArea(Protocol):
    """A blueprint with contracts and views in the same order."""

    name: str
    description: str
    contracts: list[Contract]
    views: list[Callable[..., Any]]


class DocumentedApi(Api):  # type: ignore[misc]
    """flask-smorest's Api, used for documentation only. The edge answers requests and errors."""

    def _register_responses(self) -> None:
        """Register no responses, because ``ResponseDescriber`` describes them."""

    def _register_etag_headers(self) -> None:
        """Register no headers, because ``ResponseDescriber`` describes them."""

    def _register_pagination_header(self) -> None:
        """Register no header, because ``meta`` has the paging."""

    def _register_error_handlers(self) -> None:
        """Register no error handlers, because ``problems`` handles all errors."""


def build_document(app: Flask, areas: Sequence[DocumentedArea], *, base_url: str) -> dict[str, Any]:
    """Build the OpenAPI document of the areas.

    :param base_url: public address of the service
    """
    app.config.update(
        API_TITLE="Campus Marketplace",
        API_VERSION=API_VERSION,
        OPENAPI_VERSION="3.1.0",
        API_SPEC_OPTIONS={
            "info": {
                "description": texts.API_INTRODUCTION.strip(),
                "contact": {"name": texts.CONTACT, "url": f"{base_url}/docs"},
                "license": {"name": texts.LICENSE, "identifier": texts.LICENSE_IDENTIFIER},
            },
            "servers": [{"url": base_url, "description": texts.SERVER}],
        },
    )
    plugin = SchemaPlugin()
    api = DocumentedApi(app, spec_kwargs={"flask_plugin": BasePlugin(), "marshmallow_plugin": plugin})
    examples.describe_fields(api)
    contracts = [contract for area in areas for contract in area.contracts]
    plugin.describe_as_inputs(
        bodies=[
            *(contract.body for contract in contracts if contract.body is not None),
            *(upload.form for contract in contracts if (upload := contract.upload) and upload.form),
        ],
        queries=[contract.query for contract in contracts if contract.query is not None],
    )
    api.spec.components.security_scheme(
        "bearer",
        {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": texts.BEARER},
    )
    api.spec.components.security_scheme(
        "functionsKey", {"type": "http", "scheme": "bearer", "description": texts.FUNCTIONS_KEY}
    )
    api.spec.components.security_scheme(
        "webhookSignature",
        {
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": texts.WEBHOOK_SIGNATURE,
        },
    )
    describer = OperationDescriber(api.spec, plugin.converter, base_url)
    for area in areas:
        api.spec.tag({"name": area.name, "description": area.description})
        for contract, view in zip(area.contracts, area.views, strict=True):
            describer.add_operation(contract, view, tag=area.name)
    document: dict[str, Any] = api.spec.to_dict()
    examples.add_examples(document, contracts)
    return document
