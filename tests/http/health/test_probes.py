"""Health probes with dependencies that are down, slow, wrong or silent."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from blueprints.health.routes import area
from marketplace.infra.settings import Settings
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.faulty_servers import Fault, FaultyServer, faulty_server
from tests.support.gateway import MovableClock
from tests.support.threads import at_once

PROBES = ("database", "gateway", "object_storage", "ai_model", "messaging", "sms_gateway", "cache")
READINESS = ("database", "auth", "redis", "paymentGateway", "geminiAssistant", "storageR2", "featureFlags")
RECORD = {"service", "name", "status", "latencyMs", "lastCheckedAt", "details"}
ANSWERS: dict[str, dict[str, Any]] = {
    "gateway": {"/balance": {"status": True, "data": [{"currency": "NGN", "balance": 5_000}]}},
    "sms_gateway": {"/api/get-balance": {"balance": 120.5, "currency": "NGN"}},
    "ai_model": {"/models/gpt-5-mini": {"id": "gpt-5-mini"}},
    "object_storage": {"/marketplace-private": {}, "/marketplace-public": {}},
}
# Time-outs of 1.2 s and 1.5 s for tests that wait for them. Other tests have the standard times.
SHORT_PERCENT = 30
SHORT_MS = 1_500


@dataclass
class Site:
    """An application whose providers are servers with faults."""

    settings: Settings
    servers: dict[str, FaultyServer]
    stack: ExitStack

    def client(self, **changes: Any) -> FlaskClient:
        """Return a client of a new process's state, so that no result is kept."""
        settings = replace(self.settings, **changes)
        made = Services.from_settings(settings, application_name="probes")
        self.stack.callback(made.database.close)
        made.storage.signed_link(bucket="marketplace-private", key="x", seconds=1)  # loads the large library
        return checked_app(replace(made, clock=MovableClock()), [area]).test_client()

    def diagnose(self, **changes: Any) -> dict[str, Any]:
        answer = self.client(**changes).get("/health")
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json
        return body


@pytest.fixture
def site(settings: Settings) -> Iterator[Site]:
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(faulty_server(answers, slow_seconds=1.6))
            for name, answers in ANSWERS.items()
        }
        changed = replace(
            settings,
            gateway_url=servers["gateway"].url,
            gateway_secret_key="sk_live_of_these_tests",
            sms_url=servers["sms_gateway"].url,
            assistant_url=servers["ai_model"].url,
            s3_endpoint_url=servers["object_storage"].url,
            s3_access_key_id="of-these-tests",
            s3_secret_access_key="of-these-tests",
            messaging_url="http://127.0.0.1:9/messaging",
            messaging_access_token="of-these-tests",
            messaging_phone_id="1",
        )
        yield Site(changed, servers, stack)


HEALTHY = {
    "database": "ok",
    "gateway": "operational",
    "object_storage": "operational",
    "ai_model": "operational",
    "messaging": "degraded",
    "sms_gateway": "operational",
    "cache": "ok",
}


def statuses(body: dict[str, Any], *, faulty: str = "") -> dict[str, str]:
    """Return the status of each dependency. On a busy machine, any without a fault may be late."""
    return {
        name: HEALTHY[name]
        if check["details"].get("reason") in ("slow", "timeout") and name != faulty
        else check["status"]
        for name, check in body["checks"].items()
    }


class TestDiagnostic:
    def test_all_dependencies_respond(self, site: Site) -> None:
        body = site.diagnose()

        assert statuses(body) == HEALTHY
        assert tuple(body["checks"]) == PROBES
        assert body["version"] == "unknown"
        assert body["uptime"] >= 0
        assert body.keys() == {
            *("status", "message", "version", "uptime", "timestamp", "requestId", "checks"),
        }
        for name, check in body["checks"].items():
            assert check.keys() == RECORD
            assert check["name"] == name
        assert body["checks"]["messaging"]["details"] == {
            "reason": "not_probed",
            "credentialsConfigured": True,
        }

    @pytest.mark.parametrize("name", ANSWERS)
    @pytest.mark.parametrize("fault", ["down", "black-holed"])
    def test_faulty_provider_is_down(self, site: Site, name: str, fault: Fault) -> None:
        site.servers[name].fault = fault
        body = site.diagnose(probe_percent=SHORT_PERCENT)

        assert statuses(body, faulty=name) == HEALTHY | {name: "down"}
        if fault == "black-holed":
            assert body["checks"][name]["details"] == {"reason": "timeout"}
            assert body["checks"][name]["latencyMs"] <= SHORT_MS

    def test_slow_provider_is_degraded(self, site: Site) -> None:
        site.servers["sms_gateway"].fault = "slow"
        body = site.diagnose()
        assert statuses(body, faulty="sms_gateway") == HEALTHY | {"sms_gateway": "degraded"}
        assert body["checks"]["sms_gateway"]["details"] == {"reason": "slow"}

    @pytest.mark.parametrize("name", ["gateway", "sms_gateway", "ai_model"])
    def test_wrong_body_counts_as_down(self, site: Site, name: str) -> None:
        site.servers[name].fault = "lying"
        assert statuses(site.diagnose()) == HEALTHY | {name: "down"}

    def test_refused_connections_count_as_down(self, site: Site) -> None:
        closed = "http://127.0.0.1:9"
        body = site.diagnose(gateway_url=closed, sms_url=closed, assistant_url=closed, s3_endpoint_url=closed)
        assert statuses(body) == HEALTHY | dict.fromkeys(ANSWERS, "down")

    def test_stores_without_a_server_count_as_down(self, site: Site) -> None:
        body = site.diagnose(
            database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9/0"
        )
        assert statuses(body) == HEALTHY | {"database": "down", "cache": "down"}
        assert body["status"] == "degraded"
        assert "database" in body["message"]

    def test_silent_stores_are_down_within_the_time_out(self, site: Site) -> None:
        """Servers that accept connections and never answer."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            body = site.diagnose(
                database_url=f"postgresql://nobody@{address}/none",
                redis_url=f"redis://{address}/0",
                probe_percent=SHORT_PERCENT,
            )
        assert {statuses(body, faulty=name)[name] for name in ("database", "cache")} == {"down"}
        assert all(body["checks"][name]["latencyMs"] <= SHORT_MS for name in ("database", "cache"))

    @pytest.mark.parametrize("name", ["gateway", "sms_gateway"])
    def test_balance_in_another_currency_counts_as_down(self, site: Site, name: str) -> None:
        answers = {
            "/balance": {"status": True, "data": [{"currency": "USD", "balance": 5_000}]},
            "/api/get-balance": {"balance": 120.5, "currency": "USD"},
        }
        setting = {"gateway": "gateway_url", "sms_gateway": "sms_url"}[name]
        with faulty_server(answers) as server:
            assert statuses(site.diagnose(**{setting: server.url})) == HEALTHY | {name: "down"}

    def test_missing_configuration_is_unavailable(self, site: Site) -> None:
        body = site.diagnose(messaging_access_token="", assistant_url="", gateway_secret_key="")
        assert statuses(body) == HEALTHY | dict.fromkeys(("messaging", "ai_model", "gateway"), "unavailable")
        assert body["checks"]["messaging"]["details"] == {"credentialsConfigured": False}

    def test_unknown_model_is_unavailable(self, site: Site) -> None:
        body = site.diagnose(assistant_model="retired")
        assert statuses(body) == HEALTHY | {"ai_model": "unavailable"}

    def test_test_key_degrades_the_gateway(self, site: Site) -> None:
        body = site.diagnose(gateway_secret_key="sk_test_of_these_tests")
        assert statuses(body) == HEALTHY | {"gateway": "degraded"}
        assert body["checks"]["gateway"]["details"] == {"reason": "test_mode", "testMode": True}

    def test_many_requests_share_a_single_check(self, site: Site) -> None:
        client = site.client()
        answers = at_once(
            lambda _number: client.application.test_client().get("/health").status_code, range(8)
        )
        assert answers == [200] * 8
        assert client.get("/health").status_code == 200
        asked = {name: server.requests for name, server in site.servers.items()}
        assert asked == {"gateway": 1, "sms_gateway": 1, "ai_model": 1, "object_storage": 2}

    def test_hanging_check_is_not_started_twice(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("marketplace.health.probes.FRESH_SECONDS", 0.0)
        site.servers["gateway"].fault = "black-holed"
        client = site.client(probe_percent=SHORT_PERCENT)
        for _ in range(3):
            assert client.get("/health").json["checks"]["gateway"]["status"] == "down"
        assert site.servers["gateway"].requests == 1

    def test_model_fault_degrades_the_diagnostic(self, site: Site) -> None:
        body = site.diagnose(assistant_url="http://127.0.0.1:9")
        assert body["status"] == "degraded"
        assert "ai_model" in body["message"]

    def test_diagnostic_names_no_address_and_no_secret(self, site: Site) -> None:
        site.servers["gateway"].fault = "lying"
        text = site.client().get("/health").text
        assert "127.0.0.1" not in text
        assert "of-these-tests" not in text


class TestReadiness:
    def test_readiness_has_the_specified_keys(self, site: Site) -> None:
        answer = site.client().get("/health/readiness")

        assert answer.status_code == 200
        body = answer.json
        assert body.keys() == {"status", "timestamp", "version", "uptimeSeconds", "checks"}
        assert (body["status"], tuple(body["checks"])) == ("healthy", READINESS)
        assert {check["status"] for check in body["checks"].values()} <= {"up", "degraded"}
        assert all(check.keys() == {"status", "latencyMs"} for check in body["checks"].values())

    def test_provider_with_a_fault_leaves_the_service_ready(self, site: Site) -> None:
        site.servers["gateway"].fault = "down"
        answer = site.client().get("/health/readiness")
        assert (answer.status_code, answer.json["status"]) == (200, "healthy")
        assert answer.json["checks"]["paymentGateway"]["status"] == "down"

    def test_identity_provider_without_keys_is_down(self, site: Site) -> None:
        answer = site.client(identity_algorithms=("ES256",), identity_jwks_url="http://127.0.0.1:9/keys").get(
            "/health/readiness"
        )
        assert (answer.status_code, answer.json["checks"]["auth"]["status"]) == (200, "down")

    @pytest.mark.parametrize(
        ("setting", "keys"),
        [
            ({"database_url": "postgresql://nobody@127.0.0.1:9/none"}, {"database", "featureFlags"}),
            ({"redis_url": "redis://127.0.0.1:9/0"}, {"redis"}),
        ],
    )
    def test_readiness_fails_without_database_or_cache(
        self, site: Site, setting: dict[str, str], keys: set[str]
    ) -> None:
        answer = site.client(**setting).get("/health/readiness")
        assert (answer.status_code, answer.json["status"]) == (503, "unhealthy")
        assert {name for name, check in answer.json["checks"].items() if check["status"] == "down"} == keys


@pytest.mark.parametrize(
    "path", ["/health", "/health/live", "/health/liveness", "/health/ready", "/health/readiness"]
)
def test_probes_are_not_stored_and_answer_head(site: Site, path: str) -> None:
    client = site.client()
    for answer in (client.get(path), client.head(path)):
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        assert "RateLimit-Limit" not in answer.headers
    assert client.head(path).data == b""


def test_liveness_needs_no_dependency(site: Site) -> None:
    client = site.client(
        database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9/0"
    )
    assert client.get("/health/live").json == {"status": "live"}
    assert client.get("/health/liveness").json == {"status": "alive"}


def test_metrics_are_not_public(site: Site) -> None:
    assert site.client().get("/metrics").status_code == 404
