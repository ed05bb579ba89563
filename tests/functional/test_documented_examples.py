"""The examples of the OpenAPI document, played against a freshly seeded service with the personas' tokens."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from flask.testing import FlaskClient
from werkzeug.datastructures import FileStorage
from werkzeug.test import encode_multipart

from bench.assistant_eval import Evaluation, Question, Reply, collect_reply, evaluate, read_questions
from blueprints.areas import AREAS, contracts
from blueprints.http.contract import Contract
from blueprints.http.fields import snake_case
from commands.token import fetch_token
from marketplace.infra.settings import load_settings
from marketplace.services import Services
from tests.support.assistant import read_events
from tests.support.checked_client import checked_app
from tests.support.installation import start_installation
from tests.support.sample_images import photo
from tests.support.servers import Addresses

Node = dict[str, Any]
# An event stream does not end.
_CONTRACTS = [contract for contract in contracts() if not contract.event_stream]
_NAMES = [contract.name for contract in _CONTRACTS]
# Reads by POST, which carry ids or an account number in the body.
_READS_BY_POST = {"discovery.list_products_by_ids", "banks.resolve_bank_account"}
# Creations that answer 200, because a repeated request returns the existing resource.
_REPEATABLE_CREATIONS = {
    "cart.synchronise_cart",
    "payments.initialize_payment",
    "banks.create_virtual_account",
}
# The messaging provider sends the installation's own token, which no example can know.
_HANDSHAKES = {"messaging-webhook.verify_webhook_address"}
# The demo has no export, which only a worker can prepare, nobody has asked for a deletion, and nobody is erased.
_WITHOUT_ROW = {
    "privacy.get_privacy_archive",
    "account-deletion.get_account_deletion",
    "erasures.get_erasure_execution",
}
# The dispute of the demo is resolved, and an order in dispute would have no other example.
_OVER = {"disputes.make_offer", "disputes.appeal_ruling", "dispute_evidence.add_evidence"}
# An e-mail has a token with the installation's own signature, which no example can know.
_SIGNED = {"notifications.unsubscribe_from_emails"}


def is_read(contract: Contract) -> bool:
    return contract.name not in _HANDSHAKES | _WITHOUT_ROW and (
        contract.method == "GET" or contract.name in _READS_BY_POST
    )


def is_creation(contract: Contract) -> bool:
    return contract.name not in _OVER and (contract.status == 201 or contract.name in _REPEATABLE_CREATIONS)


@dataclass(frozen=True)
class Answer:
    """The answer to an operation's example."""

    status: int
    text: str


class Player:
    """Sends the examples of a document."""

    def __init__(self, client: FlaskClient, issuer: str) -> None:
        self._client = client
        self._issuer = issuer
        self._tokens: dict[str, str] = {}
        self.document: Node = client.get("/openapi.json").get_json()

    def operation_of(self, contract: Contract) -> tuple[str, Node, list[Node]]:
        """Return the path with named segments, the operation and the parameters."""
        sought = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", contract.path)
        [path] = [path for path in self.document["paths"] if snake_case(path) == sought]
        item = self.document["paths"][path]
        operation = item[contract.method.lower()]
        parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
        return path, operation, [self._resolved(parameter) for parameter in parameters]

    def _resolved(self, parameter: Node) -> Node:
        name = parameter.get("$ref", "").rpartition("/")[2]
        found: Node = self.document["components"]["parameters"][name] if name else parameter
        return found

    def play(self, contract: Contract) -> Answer:
        """Send an operation's example as it stands, for the first page of a list.

        A cursor is left out: the service signs cursors, so an example cannot hold a valid cursor.
        """
        path, operation, parameters = self.operation_of(contract)
        examples: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
        for parameter in parameters:
            if parameter["name"] == "cursor":
                continue
            examples[parameter["in"]][parameter["name"]] = as_text(parameter["example"])
        persona = operation.get("x-demo-persona")
        if persona is not None:
            examples["header"]["Authorization"] = f"Bearer {self._token(persona)}"
        body: dict[str, Any] = {}
        for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
            if content_type == "application/json":
                body["json"] = content["example"]
            else:
                form = dict(content["example"])
                for field, described in content["schema"]["properties"].items():
                    if described.get("format") == "binary":
                        form[field] = FileStorage(io.BytesIO(photo(800, 600)), filename=form[field])
                # The test client's own boundaries can be longer than the standard's limit of 70 characters.
                boundary, body["data"] = encode_multipart(form, boundary="example")
                body["content_type"] = f"multipart/form-data; boundary={boundary}"
        response = self._client.open(
            path.format(**examples["path"]),
            method=contract.method,
            query_string=examples["query"],
            headers=examples["header"],
            **body,
        )
        return Answer(response.status_code, response.get_data(as_text=True)[:2_000])

    def ask_assistant(self, question: Question) -> Reply:
        """Ask the assistant as the buyer."""
        response = self._client.post(
            "/api/assistant/stream",
            json={"messages": [{"role": "user", "content": question.text}]},
            headers={"Authorization": f"Bearer {self._token('buyer')}"},
        )
        assert response.status_code == 200, response.text
        return collect_reply(read_events(response.text))

    def _token(self, persona: str) -> str:
        if persona not in self._tokens:
            # Staff act with two factors, which all their routes accept.
            is_officer = persona not in ("buyer", "vendor")
            self._tokens[persona] = fetch_token(self._issuer, persona=persona, aal2=is_officer, claims={})
        return self._tokens[persona]


def as_text(example: Any) -> str:
    return str(example).lower() if isinstance(example, bool) else str(example)


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Player]:
    with start_installation(tmp_path_factory.mktemp("installation"), addresses) as installation:
        installation.ok("seed")
        environment = installation.environment | {"RATE_LIMIT_SCALE": "1000", "LOG_LEVEL": "ERROR"}
        services = Services.from_settings(load_settings(environment), application_name="tests")
        controls = f"{installation.providers.ai_url}/sandbox/completions"
        requests.put(controls, json={"tokensPerSecond": 100_000}, timeout=10).raise_for_status()
        yield Player(checked_app(services, AREAS).test_client(), installation.providers.identity_issuer)
        services.database.close()


@pytest.fixture(scope="module")
def evaluation(player: Player) -> Evaluation:
    """The evaluation of the assistant on the demo's data, before the examples change the data."""
    return evaluate(read_questions(), player.ask_assistant)


@pytest.fixture(scope="module")
def answers(player: Player, evaluation: Evaluation) -> dict[str, Answer]:
    """The answers to all examples: reads first, then creations, then other steps, and deletions last."""
    assert evaluation.questions
    in_order = sorted(
        _CONTRACTS,
        key=lambda contract: (not is_read(contract), not is_creation(contract), contract.method == "DELETE"),
    )
    return {contract.name: player.play(contract) for contract in in_order}


@pytest.mark.parametrize("contract", _CONTRACTS, ids=_NAMES)
def test_example_is_answered_as_documented(
    player: Player, answers: dict[str, Answer], contract: Contract
) -> None:
    answer = answers[contract.name]

    if is_read(contract) or is_creation(contract):
        assert answer.status == contract.status, answer
    else:
        documented = player.operation_of(contract)[1]["responses"].keys()
        assert answer.status < 500, answer
        assert {str(answer.status), "default"} & documented, answer
        # The example is valid by the schema, so an invalid parameter has the reason of a business rule.
        assert (
            answer.status != 422
            or contract.name in _SIGNED
            or '"reason":' in answer.text.partition('"invalid_params"')[0]
        ), answer


def test_examples_cover_reads_creations_and_other_steps(answers: dict[str, Answer]) -> None:
    assert len(answers) == len(_CONTRACTS)
    assert sum(map(is_read, _CONTRACTS)) >= 60
    assert sum(map(is_creation, _CONTRACTS)) >= 15


def test_stand_in_answers_the_evaluation(evaluation: Evaluation) -> None:
    questions = read_questions()
    assert len(questions) >= 60
    assert {question.language for question in questions} == {"en", "pcm"}
    assert [(question.text, fault) for question, fault in evaluation.faults] == []
    assert evaluation.right == evaluation.questions == len(questions)
