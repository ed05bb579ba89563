"""The sandbox AI provider over real HTTP, and the service's adapter for the provider."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.moderation import HttpContentModerator, ModerationResult, make_content_moderator
from sandbox.providers.server import ProvidersServer
from tests.support.probes import closed_port

KEY = "sk_test_of_the_ai"
TIMEOUT_SECONDS = 20


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ProvidersServer(
        "127.0.0.1", 0, tmp_path, secret_key="sk_test_x", webhook_url="http://127.0.0.1:9/", ai_key=KEY
    ) as server:
        yield server.ai_url


@pytest.fixture
def moderator(settings: Settings, address: str) -> HttpContentModerator:
    return adapter(settings, ai_url=address)


def adapter(settings: Settings, **changes: Any) -> HttpContentModerator:
    given: dict[str, Any] = {"ai_key": KEY, "ai_timeout_seconds": 1}
    return HttpContentModerator(replace(settings, **given | changes))


def call(address: str, body: Any, key: str | None = KEY) -> requests.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return requests.post(f"{address}/moderations", json=body, headers=headers, timeout=TIMEOUT_SECONDS)


def plan(address: str, **body: Any) -> requests.Response:
    return requests.post(f"{address}/sandbox/next", json=body, timeout=TIMEOUT_SECONDS)


def received_calls(address: str) -> Any:
    return requests.get(f"{address}/sandbox/calls", timeout=TIMEOUT_SECONDS).json()["data"]


class TestProvider:
    def test_provider_response_has_the_documented_format(self, address: str) -> None:
        answer = call(address, {"model": "omni", "input": "A reading lamp"})

        assert answer.status_code == 200
        body = answer.json()
        assert body["id"].startswith("modr-")
        assert body["model"] == "omni"
        [result] = body["results"]
        assert result["flagged"] is False
        assert set(result["categories"].values()) == {False}
        assert result["categories"].keys() == result["category_scores"].keys()

    def test_provider_reviews_several_texts(self, address: str) -> None:
        answer = call(address, {"model": "omni", "input": ["A lamp", "MONEY  doubling service"]})

        assert [result["flagged"] for result in answer.json()["results"]] == [False, True]
        assert answer.json()["results"][1]["categories"]["illicit"] is True

    @pytest.mark.parametrize(
        "body",
        [{"input": "x"}, {"model": "omni"}, {"model": "omni", "input": [7]}, {"model": "omni", "input": []}],
    )
    def test_invalid_body_is_refused(self, address: str, body: Any) -> None:
        answer = call(address, body)

        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"

    def test_wrong_key_is_refused(self, address: str) -> None:
        for key in (None, "another"):
            assert call(address, {"model": "omni", "input": "x"}, key).status_code == 401

    def test_planned_outcomes_apply_and_received_texts_are_listed(self, address: str) -> None:
        assert (
            plan(address, outcome="flagged", categories=["hate"], count=2).json()["data"]
            == [{"outcome": "flagged", "categories": ["hate"]}] * 2
        )
        flags = [
            call(address, {"model": "omni", "input": f"text {number}"}).json()["results"][0]["flagged"]
            for number in range(3)
        ]
        assert flags == [True, True, False]
        assert received_calls(address) == {"count": 3, "texts": ["text 0", "text 1", "text 2"]}
        plan(address, outcome="error")
        requests.delete(f"{address}/sandbox/next", timeout=TIMEOUT_SECONDS)
        assert received_calls(address)["count"] == 0
        assert call(address, {"model": "omni", "input": "x"}).status_code == 200

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"outcome": "maybe"},
            {"outcome": "clean", "count": 0},
            {"outcome": "clean", "x": 1},
            {"outcome": "clean", "count": 1001},
        ],
    )
    def test_invalid_planned_outcomes_are_refused(self, address: str, body: Any) -> None:
        assert plan(address, **body).status_code == 400


class TestAdapter:
    def test_adapter_returns_the_classification(self, address: str, moderator: HttpContentModerator) -> None:
        assert moderator.check("A reading lamp") == ModerationResult(flagged=False)
        assert moderator.check("Money doubling, sex tape") == ModerationResult(
            flagged=True, categories=("illicit", "sexual")
        )
        assert received_calls(address)["texts"][0] == "A reading lamp"

    @pytest.mark.parametrize("outcome", ["error", "garbled", "timeout"])
    def test_failed_or_garbled_response_is_unavailable(
        self, address: str, moderator: HttpContentModerator, outcome: str
    ) -> None:
        plan(address, outcome=outcome)

        with pytest.raises(ProviderUnavailableError):
            moderator.check("A reading lamp")

        assert not moderator.check("A reading lamp").flagged

    def test_refusal_is_distinguished_from_unavailability(self, settings: Settings, address: str) -> None:
        plan(address, outcome="refused")
        with pytest.raises(ProviderRefusedError):
            adapter(settings, ai_url=address).check("x")
        with pytest.raises(ProviderRefusedError):
            adapter(settings, ai_url=address, ai_key="another").check("x")

    def test_unreachable_provider_is_unavailable(self, settings: Settings) -> None:
        with pytest.raises(ProviderUnavailableError):
            adapter(settings, ai_url=f"http://127.0.0.1:{closed_port()}/ai").check("x")

    def test_missing_address_disables_the_moderator(self, settings: Settings) -> None:
        assert make_content_moderator(settings) is None
        assert make_content_moderator(replace(settings, ai_url="http://127.0.0.1:9/ai")) is not None
