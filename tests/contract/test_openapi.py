"""OpenAPI document: valid, complete for all contracts, and consistent with the service's behaviour."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import schemathesis
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings as hypothesis_settings
from schemathesis import GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from sqlalchemy.orm import Session

import marketplace.models  # noqa: F401 - registers all tables for foreign keys
from blueprints.areas import AREAS, contracts
from blueprints.http.application import build_app
from blueprints.http.contract import Contract, Idempotency, SharedLimit, TokenPolicy
from blueprints.http.documentation.converter import reachable_schemas
from blueprints.http.documentation.enumerations import ENUMERATIONS
from blueprints.http.documentation.operations import documented_path
from blueprints.http.documentation.responses import ProblemSchema, documented_errors, error_status
from blueprints.http.fields import camel_case
from blueprints.http.idempotency import IDEMPOTENCY_KEY_HEADER
from marketplace.alerts.operations import raise_alert
from marketplace.catalog.models import Product
from marketplace.identity.queries import find_caller
from marketplace.infra.settings import Settings
from marketplace.payouts import withdrawals
from marketplace.reconciliation.models import Reconciliation, ReconciliationException
from marketplace.services import Services
from marketplace.webhooks.inbox import receive_event
from tests.contract.operation_ids import OPERATION_IDS
from tests.support.depth import DEEP, case_count, sample
from tests.support.function_calls import KEYED
from tests.support.gateway import TestGateway
from tests.support.market import Bearer, Market
from tests.support.object_storage import InMemoryStorage
from tests.support.payouts import make_account, make_payees, staged_batch
from tests.support.proposals import propose
from tests.support.purchases import fill_wallet

# Requests of each kind, valid and invalid, for each operation and caller.
_EXAMPLES = case_count(3, deep=30)
_CONTRACTS = contracts()
every_contract = pytest.mark.parametrize(
    "contract", _CONTRACTS, ids=[f"{contract.method} {contract.path}" for contract in _CONTRACTS]
)


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    """The document as served."""
    response = app.test_client().get("/openapi.json")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    found: dict[str, Any] = response.get_json()
    return found


def operation_of(document: dict[str, Any], contract: Contract) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][documented_path(contract)][contract.method.lower()]
    return found


def resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a part of the document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all operations with method and path."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def test_document_is_valid_and_names_versions_and_server(
    app: Flask, document: dict[str, Any], settings: Settings
) -> None:
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)

    schema.validate()
    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == "1.0"
    assert [server["url"] for server in document["servers"]] == [settings.public_base_url]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_document_describes_exactly_the_contracts(document: dict[str, Any]) -> None:
    described = {route for route, _ in operations(document)}

    assert described == {f"{contract.method} {documented_path(contract)}" for contract in _CONTRACTS}


def test_operation_ids_never_change(document: dict[str, Any]) -> None:
    ids = {route: operation["operationId"] for route, operation in operations(document)}

    assert ids == OPERATION_IDS
    assert len(set(ids.values())) == len(ids)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", one) for one in ids.values())


def test_paths_differ_not_only_in_names_of_parameters(document: dict[str, Any]) -> None:
    shapes = [re.sub(r"{\w+}", "{}", path) for path in document["paths"]]

    assert len(set(shapes)) == len(shapes)


@every_contract
def test_operation_is_described_like_the_contract(document: dict[str, Any], contract: Contract) -> None:
    operation = operation_of(document, contract)
    parameters = [resolved(document, one) for one in operation["parameters"]]

    assert operation["summary"][0].isupper()
    assert operation["summary"].endswith(".")
    assert f"Access: {contract.access.name}." in operation["description"]
    assert operation["security"] == {
        TokenPolicy.FUNCTION: [{"functionsKey": []}, {"webhookSignature": []}],
        TokenPolicy.REQUIRED: [{"bearer": []}],
        TokenPolicy.CHECKED_IF_GIVEN: [{}, {"bearer": []}],
    }.get(contract.access.token, [])
    assert ("requestBody" in operation) == bool(contract.body or contract.upload)
    if contract.body is not None:
        assert operation["requestBody"]["required"] == bool(contract.body.validate({}))
    keys = [one for one in parameters if one["name"] == IDEMPOTENCY_KEY_HEADER]
    if contract.idempotency is Idempotency.NONE:
        assert keys == []
    else:
        assert [one["required"] for one in keys] == [contract.idempotency is Idempotency.REQUIRED]
        assert keys[0]["schema"].keys() == {"type", "pattern"}
        assert re.search(keys[0]["schema"]["pattern"], str(uuid4()))
        assert not re.search(keys[0]["schema"]["pattern"], "0b7c9a52-6a3e-1f5e-9d0e-2f1c8f6a7b11")
    for one in parameters:
        assert one["in"] == "query" or one["description"]
        for node in nodes(one):
            assert "null" not in node.get("type", ())
            assert node.get("default", "") is not None


@every_contract
def test_operation_describes_success_and_headers(document: dict[str, Any], contract: Contract) -> None:
    responses = operation_of(document, contract)["responses"]

    success = resolved(document, responses[str(contract.status)])
    kind = "text/plain" if contract.plain else "application/json"
    if contract.event_stream:
        kind = "text/event-stream"
    assert next(iter(success["content"])) == kind
    assert ("text/csv" in success["content"]) == contract.csv
    schema = resolved(document, success["content"][kind]["schema"])
    is_text = contract.plain or contract.event_stream
    assert is_text or contract.enveloped == ({"success", "data", "meta"} == set(schema["properties"]))
    assert ("ETag" in success["headers"]) == bool(contract.cache_seconds) == ("304" in responses)
    assert ("X-Cache-Lookup" in success["headers"]) == (contract.idempotency is not Idempotency.NONE)
    is_limited = contract.limit is not SharedLimit.UNLIMITED
    for response in responses.values():
        headers = resolved(document, response)["headers"]
        assert "X-Request-ID" in headers
        assert ("RateLimit-Remaining" in headers) == is_limited
    for status in {"429", "503"} & responses.keys() - {str(one) for one in contract.further_statuses}:
        assert "Retry-After" in resolved(document, responses[status])["headers"]
    if "401" in responses:
        assert "WWW-Authenticate" in resolved(document, responses["401"])["headers"]


@every_contract
def test_operation_lists_the_codes_and_reasons_of_problems(
    document: dict[str, Any], contract: Contract
) -> None:
    responses = operation_of(document, contract)["responses"]
    success = {"304", *map(str, (contract.status, *contract.further_statuses))}
    assert all(re.fullmatch(r"[45]\d\d", status) for status in responses.keys() - success)

    found = set()
    for status in responses.keys() - success:
        response = resolved(document, responses[status])
        [(kind, content)] = response["content"].items()
        assert kind == "application/problem+json"
        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
        for example in content["examples"].values():
            problem = resolved(document, example)["value"]
            assert not ProblemSchema().validate(problem)
            assert f"`{problem['code']}`" in response["description"]
            assert str(problem["status"]) == status
            found.add((problem["status"], problem["code"], problem.get("reason")))

    assert found == {
        (error_status(error), error.code, error.reason)
        for error in documented_errors(contract)
        if error_status(error) not in contract.further_statuses
    }


def test_refusal_with_a_reason_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    refusal = document["paths"]["/api/orders/{orderId}/verify-code"]["post"]["responses"]["400"]

    assert {"VALIDATION_FAILED", "wrong-pin"} == refusal["content"]["application/problem+json"][
        "examples"
    ].keys()
    assert "`DELIVERY_PIN_INVALID`, `wrong-pin`" in refusal["description"]


def test_enumerations_are_components_with_the_domains_words(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    enumerations = {name: schema for name, schema in schemas.items() if "enum" in schema}

    assert {id(node) for node in nodes(document) if "enum" in node} == {
        id(schema) for schema in enumerations.values()
    }
    for name, words in ENUMERATIONS.items():
        assert enumerations[name] == {"type": "string", "enum": list(words)}, name
    same_words = {frozenset(words) for words in ENUMERATIONS.values()}
    assert len(same_words) == len(ENUMERATIONS)
    order, problem = schemas["OrderView"]["properties"], schemas["Problem"]["properties"]
    assert problem["code"]["$ref"] == "#/components/schemas/ProblemCode"
    assert order["nextActions"]["items"]["$ref"] == "#/components/schemas/NextAction"
    assert order["shippingAddress"]["$ref"] == "#/components/schemas/OrderDestination"


def test_only_optional_objects_may_be_null_besides_a_reference(document: dict[str, Any]) -> None:
    """Generators exist that fail on alternatives of other forms."""
    for node in nodes(document):
        assert "nullable" not in node
        if "anyOf" in node and isinstance(node["anyOf"], list):
            reference, null = node["anyOf"]
            assert reference.keys() == {"$ref"}
            assert null == {"type": "null"}


def test_amounts_and_counters_are_64_bit_integers(document: dict[str, Any]) -> None:
    amounts = 0
    for schema in document["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            if name.endswith("Minor") or name == "total_amount":
                amounts += 1
                assert field["format"] == "int64", name
            if isinstance(field, dict):
                assert field.get("maximum", 0) < 2**63 - 1, name
    assert amounts > 100


def test_bodies_are_closed_and_replies_are_open(document: dict[str, Any]) -> None:
    bodies = reachable_schemas([contract.body for contract in _CONTRACTS if contract.body])
    queries = reachable_schemas([contract.query for contract in _CONTRACTS if contract.query])
    replies = reachable_schemas(
        [one for contract in _CONTRACTS for one in (contract.reply, contract.meta()) if one is not None]
    )

    assert not bodies & replies
    assert not queries & (bodies | replies)
    names = {schema.__name__ for schema in bodies}
    for name, schema in document["components"]["schemas"].items():
        if schema["type"] == "object":
            assert ("additionalProperties" in schema) == (name in names), name


# A sort column without a field: only the vendor and the platform know how often a listing was bought.
_SORTED_UNSEEN = {"/api/products/vendor/paginated": {"popularity"}}


def test_sort_columns_are_named_like_response_fields(document: dict[str, Any]) -> None:
    tables = 0
    for contract in _CONTRACTS:
        operation = operation_of(document, contract)
        parameters = {
            one["name"]: one["schema"]
            for one in (resolved(document, given) for given in operation["parameters"])
        }
        if not parameters.keys() >= {"sort", "order"}:
            continue
        tables += 1
        answer = resolved(document, operation["responses"][str(contract.status)])
        envelope = resolved(document, answer["content"]["application/json"]["schema"])
        item = resolved(document, envelope["properties"]["data"]["items"])
        unseen = set(resolved(document, parameters["sort"])["enum"]) - item["properties"].keys()
        assert unseen == _SORTED_UNSEEN.get(contract.path, set()), contract.path
    assert tables >= 10


def test_every_component_is_described_once(document: dict[str, Any]) -> None:
    """A colliding name would get a number."""
    schemas = document["components"]["schemas"]

    assert [name for name in schemas if re.search(r"\d+$", name)] == []
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            assert re.fullmatch(r"[a-z][A-Za-z0-9]*(_[a-z]+)*", field), f"{name}.{field}"
            assert described, f"{name}.{field} may be anything"


@dataclass(frozen=True)
class Cast:
    """A buyer, a vendor, two officers, and the ids of related records."""

    buyer: UUID
    vendor: UUID
    moderator: UUID
    finance: UUID
    ids: dict[str, str]


@pytest.fixture(scope="module")
def paying_app(settings: Settings, gateway_server: TestGateway) -> Iterator[Flask]:
    """The application, connected to the sandbox's gateway and language model."""
    made = replace(settings, **gateway_server.settings(), assistant_url=gateway_server.server.ai_url)
    services = replace(Services.from_settings(made, application_name="tests"), storage=InMemoryStorage())
    yield build_app(services, AREAS)
    services.database.close()


@pytest.fixture(scope="module")
def cast(paying_app: Flask, services: Services, bearer: Bearer) -> Cast:
    """A buyer with an address and an unpaid order, of a vendor with a promoted product."""
    market = Market(services.database)
    store = market.store()
    buyer = market.person()
    product = market.product(store, quantity=10_000)
    client = paying_app.test_client()
    headers = bearer(buyer)
    address = client.post("/api/users/me/addresses", json={"hostel": "Moremi"}, headers=headers)
    order = client.post(
        "/api/orders",
        json={
            "items": [{"productId": str(product), "quantity": 1}],
            "addressId": address.get_json()["data"]["id"],
        },
        headers=headers,
    )
    assert order.status_code == 201, order.get_data(as_text=True)
    ids = {
        "gateway": "gateway",
        "product_id": str(product),
        "order_id": order.get_json()["data"]["id"],
        # Random ids: no charge is quarantined and no refund has failed here.
        "refund_id": str(uuid4()),
        "charge_id": str(uuid4()),
        "webhook_id": str(
            services.database.in_transaction(
                receive_event, provider="gateway", body=b"{}", now=datetime.now(UTC)
            )
        ),
        # A random id: this buyer has no delivered order.
        "review_id": str(uuid4()),
        "alert_id": str(raised(services)),
        # Random ids: this person has neither device nor notification.
        "device_id": str(uuid4()),
        "notification_id": str(uuid4()),
        "conversation_id": str(uuid4()),
        "ticket_id": str(uuid4()),
        "dispute_id": str(uuid4()),
        "offer_id": str(uuid4()),
        "evidence_id": str(uuid4()),
        "thread_id": str(uuid4()),
        "export_id": str(uuid4()),
        "execution_id": str(uuid4()),
        "reply_id": str(uuid4()),
        "view_id": str(uuid4()),
        "blocked_message_id": str(uuid4()),
        # A random id: these officers do not manage vendors.
        "application_id": str(uuid4()),
        "slug": "amaras-lamps",
        # A random id: these officers do not manage people.
        "appeal_id": str(uuid4()),
        # A random id: no content is reported.
        "case_id": str(uuid4()),
        "proposal_id": str(services.database.in_transaction(propose)),
        **reconciled(services),
        "payout_id": str(services.database.in_transaction(requested_cash_out, buyer)),
        "batch_id": str(services.database.in_transaction(staged)),
        "address_id": address.get_json()["data"]["id"],
        "category_id": str(market.category_id),
        "campus_id": str(market.campus_id),
        # Random ids: these officers do not manage the platform.
        "hub_id": str(uuid4()),
        "shift_id": str(uuid4()),
        "incident_id": str(uuid4()),
        "holiday_id": str(uuid4()),
        "domain": "example.edu",
        "vendor_id": str(store.id),
        "user_id": str(market.person()),
    }
    moderator = market.staff("moderator")
    ids |= promoted(client, bearer(moderator), str(product))
    return Cast(buyer, store.user_id, moderator, market.staff("finance"), ids)


def staged(session: Session) -> UUID:
    """Insert a staged payout batch."""
    return staged_batch(session, make_payees(session, 2))


def raised(services: Services) -> UUID:
    """Raise an alert."""
    return services.database.in_transaction(
        raise_alert,
        identifier="PAYMENT_STALLED",
        subject=f"payment:{uuid4()}",
        title="It is unclear whether something was paid",
        facts={},
        now=datetime.now(UTC),
    )


def requested_cash_out(session: Session, buyer_id: UUID) -> UUID:
    """Request a cash-out for a buyer with wallet balance and bank account, and return the payout's id."""
    fill_wallet(session, buyer_id, 900_000)
    make_account(session, buyer_id)
    caller = find_caller(session, user_id=buyer_id, aal="aal1", now=datetime.now(UTC))
    assert caller is not None
    return withdrawals.request_cash_out(
        session, caller=caller, amount_minor=200_000, now=datetime.now(UTC)
    ).id


def reconciled(services: Services) -> dict[str, str]:
    """Insert a reconciliation with a difference and return the ids of both."""
    now = datetime.now(UTC)
    with services.database.transaction() as session:
        run = Reconciliation(
            status="failed", failure="Of a test.", started_by="schedule", starts=now - timedelta(1), ends=now
        )
        run.finished_at = now
        session.add(run)
        session.flush()
        found = ReconciliationException(
            run_id=run.id, item="charge:1", kind="charge", problem="missing_here", action="look_up_charge"
        )
        found.here_minor, found.there_minor = 0, 100
        session.add(found)
        session.flush()
        return {"run_id": str(run.id), "exception_id": str(found.id)}


def promoted(client: FlaskClient, headers: dict[str, str], product_id: str) -> dict[str, str]:
    """Promote a product and return the ids of the promotions."""
    ends_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made: dict[str, tuple[str, dict[str, Any]]] = {
        "sale_id": ("/api/flash-sales", {"percentOff": 10, "productId": product_id, "endsAt": ends_at}),
        "banner_id": (
            "/api/banners",
            {"title": "Freshers", "placement": "hero", "imageUrl": "https://example.edu/a.webp"},
        ),
        "vibe_id": (
            "/api/vibes",
            {"slug": f"vibe-{product_id}", "title": "Desk", "productIds": [product_id]},
        ),
        "entry_id": ("/api/products/featured", {"productId": product_id}),
        "term_id": (
            "/api/products/moderation/banned-terms",
            {"term": f"contraband {product_id}", "category": "other"},
        ),
        "synonyms_id": ("/api/products/search/synonyms", {"terms": ["lamp", "light"]}),
    }
    ids = {}
    for name, (path, body) in made.items():
        answer = client.post(path, json=body, headers=headers)
        assert answer.status_code == 201, answer.get_data(as_text=True)
        ids[name] = answer.get_json()["data"]["id"]
    return ids


@pytest.fixture
def on_sale(cast: Cast, services: Services) -> None:
    """Publish the product again, because earlier operations may have changed the status."""
    Market(services.database).change(
        Product, UUID(cast.ids["product_id"]), status="published", held=False, deleted_at=None
    )


@pytest.fixture(scope="module")
def schema(paying_app: Flask) -> BaseSchema:
    """The document, loaded by Schemathesis."""
    return schemathesis.openapi.from_wsgi("/openapi.json", paying_app)


def with_real_ids(value: Any, ids: dict[str, str]) -> Any:
    """Replace ids in a body by existing ids, because random ids would always cause 404."""
    if isinstance(value, dict):
        known = {re.sub(r"_id$", "Id", name): one for name, one in ids.items()}
        return {
            key: known[key] if key in known and isinstance(item, str) else with_real_ids(item, ids)
            for key, item in value.items()
        }
    return [with_real_ids(item, ids) for item in value] if isinstance(value, list) else value


def takes_something(contract: Contract) -> bool:
    keyed = contract.idempotency is not Idempotency.NONE
    # A path parameter of type string accepts any text.
    narrow = re.search(r"<(?!string:)", contract.path) is not None
    has_query = contract.query is not None and contract.query.fields
    return bool(narrow or contract.body or contract.upload or has_query or keyed)


def callers(contract: Contract) -> tuple[str, ...]:
    """Return the roles that call an operation: only the most privileged role in a quick run, else several."""
    staff = bool(contract.access.permissions) or contract.access.roles == {"staff"}
    if DEEP:
        return ("buyer", "vendor", "moderator") if staff else ("buyer", "vendor")
    return (
        ("moderator",) if staff else ("vendor",) if "vendor" in (contract.access.roles or ()) else ("buyer",)
    )


# ``test_hostile_input.py`` sends invalid requests to all operations too.
SENT = [
    *((contract, GenerationMode.POSITIVE) for contract in _CONTRACTS),
    *(
        (contract, GenerationMode.NEGATIVE)
        for contract in sample([contract for contract in _CONTRACTS if takes_something(contract)], every=3)
    ),
]
REQUESTS = [
    pytest.param(contract, mode, role, id=f"{role} {mode.value} {contract.method} {contract.path}")
    for contract, mode in SENT
    for role in callers(contract)
]


@pytest.mark.usefixtures("on_sale")
@pytest.mark.parametrize(("contract", "mode", "role"), REQUESTS)
def test_responses_match_the_openapi_document(
    schema: BaseSchema, cast: Cast, bearer: Bearer, contract: Contract, mode: GenerationMode, role: str
) -> None:
    """Any valid or invalid request gets a described response and never a server error."""
    operation = schema[documented_path(contract)][contract.method]
    headers = bearer(getattr(cast, role), "aal2" if contract.access.aal2 else "aal1")
    if contract.access.token is TokenPolicy.FUNCTION:
        headers = KEYED
    positive = mode is GenerationMode.POSITIVE
    strategy = operation.as_strategy(mode, headers=headers)
    fixed = {camel_case(name): cast.ids[name] for name in re.findall(r":(\w+)>", contract.path)}
    if fixed and (positive or contract.body is not None):
        strategy = operation.as_strategy(mode, headers=headers, path_parameters=fixed) | strategy
    # A valid body can still break a rule: an order with items of two vendors is refused with 422.
    excluded = [positive_data_acceptance]
    if contract.upload is not None:
        # Schemathesis may restore the correct name of the form's field when encoding an invalid form.
        excluded.append(negative_data_rejection)
    statuses = []

    @hypothesis_settings(max_examples=_EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def check(case: Any) -> None:
        if positive:
            # A body that is left out stays as it is: Schemathesis checks changed parts again.
            if contract.upload is None and isinstance(case.body, dict | list):
                case.body = with_real_ids(case.body, cast.ids)
            if IDEMPOTENCY_KEY_HEADER in case.headers:
                case.headers[IDEMPOTENCY_KEY_HEADER] = str(uuid4())
        # The headers are passed as the caller's own. Schemathesis may otherwise take the token for an invented token,
        # and report an accepted request as ignored authentication.
        response = case.call(headers=headers)
        statuses.append(response.status_code)
        case.validate_response(response, headers=headers, excluded_checks=excluded)

    check()
    assert statuses
    assert max(statuses) < 500
