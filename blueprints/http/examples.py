"""Examples in the OpenAPI document: bodies, responses and parameters, put together from the examples of fields."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flask_smorest import Api

from blueprints.http.contract import Contract, TokenPolicy
from blueprints.http.field_docs import OTHER_ID, SharedDoc, describe_field
from blueprints.http.fields import snake_case
from blueprints.http.idempotency import IDEMPOTENCY_KEY_HEADER
from marketplace.identity.permissions import (
    MANAGE_COMPLIANCE,
    MANAGE_DISPUTES,
    MANAGE_FINANCES,
    MANAGE_ORDERS,
    MANAGE_PLATFORM,
    MANAGE_PRODUCTS,
    MANAGE_SUPPORT,
    MANAGE_USERS,
    MANAGE_VENDORS,
    VIEW_AUDIT,
)
from marketplace.kernel import demo_ids

Node = dict[str, Any]
_PATH_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")

_PARAMETERS: Final[dict[str, SharedDoc]] = {
    "product_id": SharedDoc("Id of the product.", demo_ids.PRODUCT),
    "type": SharedDoc("Kind of event.", "view"),
    "vendor_id": SharedDoc("Id of the store.", demo_ids.STORE),
    "synonyms_id": SharedDoc("Id of the synonym group.", OTHER_ID),
    "campus_id": SharedDoc("Id of the campus.", demo_ids.CAMPUS),
    "hub_id": SharedDoc("Id of the hub.", demo_ids.HUB),
    "holiday_id": SharedDoc("Id of the public holiday.", demo_ids.PUBLIC_HOLIDAY),
    "shift_id": SharedDoc("Id of the shift.", demo_ids.REP_SHIFT),
    "domain": SharedDoc("E-mail domain of the campus.", "north.example.edu"),
    "term_id": SharedDoc("Id of the banned term.", OTHER_ID),
    "entry_id": SharedDoc("Id of the entry of the featured products.", demo_ids.FEATURED_PRODUCT),
    "sale_id": SharedDoc("Id of the flash sale.", demo_ids.FLASH_SALE),
    "banner_id": SharedDoc("Id of the banner.", demo_ids.BANNER),
    "vibe_id": SharedDoc("Id of the vibe.", demo_ids.VIBE),
    "user_id": SharedDoc("Id of the person.", demo_ids.STUDENT),
    "order_id": SharedDoc("Id of the order.", demo_ids.ORDER),
    "refund_id": SharedDoc("Id of the refund.", OTHER_ID),
    "charge_id": SharedDoc("Id of the quarantined charge.", OTHER_ID),
    "payout_id": SharedDoc("Id of the payout.", OTHER_ID),
    "batch_id": SharedDoc("Id of the payout batch.", demo_ids.PAYOUT_BATCH),
    "run_id": SharedDoc("Id of the reconciliation run.", demo_ids.RECONCILIATION),
    "exception_id": SharedDoc("Id of the exception: a transfer or a difference.", OTHER_ID),
    "address_id": SharedDoc("Id of the address.", demo_ids.ADDRESS),
    "webhook_id": SharedDoc("Id of the webhook event.", demo_ids.WEBHOOK),
    "review_id": SharedDoc("Id of the review.", demo_ids.REVIEW),
    "device_id": SharedDoc("Id of the device.", demo_ids.DEVICE),
    "notification_id": SharedDoc("Id of the notification.", demo_ids.NOTIFICATION),
    "conversation_id": SharedDoc("Id of the conversation.", demo_ids.CONVERSATION),
    "ticket_id": SharedDoc("Id of the ticket.", demo_ids.TICKET),
    "dispute_id": SharedDoc("Id of the dispute.", demo_ids.DISPUTE),
    "offer_id": SharedDoc("Id of the settlement offer.", demo_ids.DISPUTE_OFFER),
    "evidence_id": SharedDoc("Id of the evidence.", demo_ids.DISPUTE_EVIDENCE),
    "execution_id": SharedDoc("Id of the execution of an erasure.", OTHER_ID),
    "export_id": SharedDoc("Id of the export.", demo_ids.PRIVACY_EXPORT),
    "thread_id": SharedDoc("Id of the conversation with the assistant.", demo_ids.ASSISTANT_THREAD),
    "reply_id": SharedDoc("Id of the canned reply.", demo_ids.CANNED_REPLY),
    "view_id": SharedDoc("Id of the saved view.", demo_ids.SAVED_VIEW),
    "blocked_message_id": SharedDoc("Id of the blocked message.", demo_ids.BLOCKED_MESSAGE),
    "application_id": SharedDoc("Id of the vendor application.", demo_ids.APPLICATION),
    "slug": SharedDoc("Address of the store.", "amaras-lamps"),
    "appeal_id": SharedDoc("Id of the appeal.", demo_ids.APPEAL),
    "case_id": SharedDoc("Id of the reported content's case.", demo_ids.REPORT_CASE),
    "incident_id": SharedDoc("Id of the incident.", demo_ids.INCIDENT),
    "alert_id": SharedDoc("Id of the alert.", OTHER_ID),
    "proposal_id": SharedDoc("Id of the proposal.", demo_ids.PROPOSAL),
    "gateway": SharedDoc("Name of the gateway in the configured webhook address.", "gateway"),
    "If-None-Match": SharedDoc("`ETag` of an earlier response.", 'W/"5e884898da280471"'),
    "If-Match": SharedDoc("Revision that you read, instead of `revision` in the body.", '"1"'),
    IDEMPOTENCY_KEY_HEADER: SharedDoc(
        "A UUID of version 4 for this request. A repeated request with the same key has no further effect.",
        "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    ),
}


def describe_fields(api: Api) -> None:
    """Let apispec complete the descriptions and examples of fields."""
    converter = api.ma_plugin.converter
    # Before nested schemas, whose reference apispec wraps to keep a description.
    position = converter.attribute_functions.index(converter.metadata2properties) + 1
    converter.attribute_functions.insert(position, describe_field)


def add_examples(document: Node, contracts: Sequence[Contract]) -> None:
    """Complete the examples of a finished document."""
    examples = _Examples(document)
    examples.complete_properties()
    for parameter in document["components"].get("parameters", {}).values():
        _describe_parameter(parameter)
    items = {snake_case(path): item for path, item in document["paths"].items()}
    for contract in contracts:
        item = items[_PATH_VARIABLE.sub(r"{\1}", contract.path)]
        operation = item[contract.method.lower()]
        _name_persona(operation, contract)
        for parameter in [*item.get("parameters", ()), *operation.get("parameters", ())]:
            _describe_parameter(parameter)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for described in content["schema"].get("properties", {}).values():
                if described.get("format") == "binary":
                    described.setdefault("example", "calculator.jpg")
            content["example"] = examples.of_body(content["schema"], contract)
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                for content_type, content in response["content"].items():
                    content["example"] = (
                        _STREAMS.get(contract.name)
                        or _FILES.get(content_type)
                        or examples.of(content["schema"])
                    )


_FILES = {
    "text/csv": "number,status,total_amount\r\nCM-100001,delivered,775000\r\n",
    "application/pdf": "%PDF-1.7",
    "text/plain": "1158201444",
}


_STREAMS = {
    "notifications.stream_events": {"event": "end", "data": '{"reason":"replaced"}'},
    "assistant.stream_answer": {"id": "20000", "event": "token", "data": '{"id":20000,"text":"You can "}'},
}
_OFFICERS = {
    MANAGE_FINANCES: "finance",
    MANAGE_ORDERS: "orders",
    MANAGE_PLATFORM: "admin",
    MANAGE_PRODUCTS: "moderator",
    MANAGE_SUPPORT: "support",
    MANAGE_DISPUTES: "support",
    MANAGE_USERS: "admin",
    MANAGE_VENDORS: "moderator",
    VIEW_AUDIT: "compliance",
    MANAGE_COMPLIANCE: "compliance",
}


# Operations that need another person, or a person in a particular state.
_PERSONAS = {
    "account-deletion.request_account_deletion": "suspended",
    "account-status.submit_appeal": "restricted",
    "applications.submit_application": "buyer2",
    "applications.get_own_application": "vendor2",
    # The buyer's example reports the same product by the other path.
    "content_reports.report_content_by_earlier_path": "buyer2",
}


def _persona_of(contract: Contract) -> str | None:
    """Return the persona of the demo whose token an example needs."""
    access = contract.access
    if contract.name in _PERSONAS:
        return _PERSONAS[contract.name]
    if access.token is not TokenPolicy.REQUIRED:
        return None
    if access.permissions:
        return _OFFICERS[access.permissions[0]]
    if access.roles is None:
        return "buyer"
    return "vendor" if "vendor" in access.roles else "admin"


def _name_persona(operation: Node, contract: Contract) -> None:
    access = contract.access
    paragraphs = [operation.get("description") or f"Access: {access.name}."]
    persona = _persona_of(contract)
    if persona is not None:
        factors = ", with two factors" if access.aal2 else ""
        paragraphs.append(f"Persona of the example: `{persona}`{factors}.")
        operation["x-demo-persona"] = persona
    operation["description"] = "\n\n".join(paragraphs)


def _describe_parameter(parameter: Node) -> None:
    if "$ref" in parameter:
        return
    described = _PARAMETERS.get(snake_case(parameter["name"])) or _PARAMETERS.get(parameter["name"])
    if described is not None and parameter["in"] != "query":
        parameter.setdefault("description", described.description)
        parameter.setdefault("example", str(described.example))
    elif "example" in parameter.get("schema", {}):
        # An example of a parameter stands beside the schema.
        parameter["example"] = parameter["schema"].pop("example")


class _Examples:
    """Examples of the schemas of a document. Recursive schemas end with an empty list."""

    def __init__(self, document: Node) -> None:
        self._schemas: dict[str, Node] = document.get("components", {}).get("schemas", {})
        self._built: dict[str, Any] = {}

    def complete_properties(self) -> None:
        """Give each property that has no example one, put together from the properties below."""
        for schema in self._schemas.values():
            for described in schema.get("properties", {}).values():
                if described.keys() != {"$ref"} and "example" not in described:
                    described["example"] = self.of(described)

    def of_body(self, schema: Node, contract: Contract) -> Any:
        """Put together the example of a request body, without fields that exclude each other."""
        example = self.of(schema)
        if isinstance(example, dict) and contract.body is not None:
            omitted: frozenset[str] = getattr(contract.body, "example_omits", frozenset())
            keys = {contract.body.fields[name].data_key for name in omitted}
            return {key: value for key, value in example.items() if key not in keys}
        return example

    def of(self, schema: Node) -> Any:
        """Return the example of a schema."""
        if "example" in schema:
            return schema["example"]
        if "enum" in schema:
            return schema["enum"][0]
        if "$ref" in schema:
            return self._of_component(schema["$ref"].rpartition("/")[2])
        merged: Node = {}
        for part in self._alternatives(schema):
            found = self.of(part)
            if not isinstance(found, dict):
                return found
            merged |= found
        merged |= {name: self.of(described) for name, described in schema.get("properties", {}).items()}
        if "items" in schema:
            return self._of_items(schema["items"])
        return merged

    def _alternatives(self, schema: Node) -> Iterator[Node]:
        yield from schema.get("allOf", ())
        for keyword in ("oneOf", "anyOf"):
            yield from [part for part in schema.get(keyword, ()) if part.get("type") != "null"][:1]

    def _of_items(self, items: Node) -> list[Any]:
        if "$ref" in items and self._built.get(items["$ref"].rpartition("/")[2], ...) is None:
            return []
        return [self.of(items)]

    def _of_component(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = None  # marks a schema that is being built
            self._built[name] = self.of(self._schemas[name])
        return self._built[name]
