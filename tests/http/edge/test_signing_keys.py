"""Tokens signed with published keys: fetching, caching and rotation, also while the provider is unreachable."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, SharedLimit
from marketplace.providers import identity
from marketplace.providers.identity import TokenVerifier
from marketplace.services import Services
from sandbox.personas import persona_named
from sandbox.providers.server import ProvidersServer
from tests.conftest import ISSUER, SHARED_SECRET
from tests.support.probes import assert_problem, at_once, changed, closed_port, eventually, probe_area, serve
from tests.support.tokens import KeyServer, claims_of, segment

area = probe_area()
Serve = Callable[..., FlaskClient]


@area.get("/protected", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def protected(ctx: Context) -> dict[str, Any]:
    return {"user": ctx.user.id}


@area.get("/public", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def public(ctx: Context) -> dict[str, Any]:
    return {"user": ctx.caller and ctx.caller.id}


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer() as server:
        server.add_key("first")
        yield server


def serve_with(services: Services, url: str, *algorithms: str, **changes: Any) -> FlaskClient:
    made = changed(services, identity_jwks_url=url, identity_algorithms=algorithms or ("ES256",), **changes)
    return serve(made, area, token_verifier=TokenVerifier(made.settings))


@pytest.fixture
def probe(services: Services, keys: KeyServer) -> FlaskClient:
    return serve_with(services, keys.url)


def request_with(probe: FlaskClient, token: str, path: str = "protected") -> Any:
    return probe.get(f"/api/probe/{path}", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def no_fetch_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the minimum interval between fetches, so tests need not wait."""
    monkeypatch.setattr(identity, "_MIN_FETCH_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(identity, "_MIN_FIRST_FETCH_INTERVAL_SECONDS", 0)


def test_keys_are_fetched_once_and_cached(probe: FlaskClient, keys: KeyServer) -> None:
    keys.add_key("second")
    for number in range(6):
        user_id = uuid4()
        response = request_with(probe, keys.token(user_id, key_id=("first", "second")[number % 2]))
        assert (response.status_code, response.json["data"]) == (200, {"user": str(user_id)})
    assert keys.fetches == 1


def test_unknown_key_id_triggers_fetch_of_new_key(
    probe: FlaskClient, keys: KeyServer, no_fetch_interval: None
) -> None:
    assert request_with(probe, keys.token(uuid4(), key_id="first")).status_code == 200
    keys.add_key("second")
    assert request_with(probe, keys.token(uuid4(), key_id="second")).status_code == 200
    assert request_with(probe, keys.token(uuid4(), key_id="first")).status_code == 200
    assert keys.fetches == 2


def test_withdrawn_key_is_refused_after_next_fetch(
    probe: FlaskClient, keys: KeyServer, no_fetch_interval: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = keys.token(uuid4(), key_id="first")
    assert request_with(probe, old).status_code == 200
    keys.add_key("second")
    del keys.keys["first"]
    assert request_with(probe, old).status_code == 200
    monkeypatch.setattr(identity, "_KEYS_FRESH_SECONDS", 0)
    assert_problem(request_with(probe, old), 401, "AUTH_UNAUTHORIZED")
    assert request_with(probe, keys.token(uuid4(), key_id="second")).status_code == 200


def test_unknown_key_ids_do_not_each_cause_a_fetch(probe: FlaskClient, keys: KeyServer) -> None:
    for number in range(20):
        token = keys.token(uuid4(), key_id="first", named=f"made-up-{number}")
        assert_problem(request_with(probe, token), 401, "AUTH_UNAUTHORIZED")
    assert keys.fetches == 1
    assert request_with(probe, keys.token(uuid4(), key_id="first")).status_code == 200


def test_token_signed_with_unpublished_key_is_refused(probe: FlaskClient, keys: KeyServer) -> None:
    forger = ec.generate_private_key(ec.SECP256R1())
    for headers in ({"kid": "first"}, {"kid": ""}, {}, {"kid": "first", "jwk": keys.published("first")}):
        token = jwt.encode(claims_of(uuid4()), forger, algorithm="ES256", headers=headers)
        assert_problem(request_with(probe, token), 401, "AUTH_UNAUTHORIZED")


def test_public_key_is_not_accepted_as_shared_secret(services: Services, keys: KeyServer) -> None:
    public_key = keys.keys["first"].public_key()
    forms = [
        public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(keys.published("first")).encode(),
        b"",
    ]
    only_public = serve_with(services, keys.url)
    both = serve_with(services, keys.url, "ES256", "HS256")
    for secret in forms:
        head = segment(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "first"}).encode())
        signed = f"{head}.{segment(json.dumps(claims_of(uuid4())).encode())}"
        forged = f"{signed}.{segment(hmac.digest(secret, signed.encode(), hashlib.sha256))}"
        for probe in (only_public, both):
            assert_problem(request_with(probe, forged), 401, "AUTH_UNAUTHORIZED")
    shared = jwt.encode(claims_of(uuid4()), SHARED_SECRET, algorithm="HS256", headers={"kid": "first"})
    assert request_with(both, shared).status_code == 200
    assert_problem(request_with(only_public, shared), 401, "AUTH_UNAUTHORIZED")


def test_token_of_unconfigured_algorithm_is_refused(services: Services, keys: KeyServer) -> None:
    probe = serve_with(services, keys.url, "RS256")
    assert_problem(request_with(probe, keys.token(uuid4(), key_id="first")), 401, "AUTH_UNAUTHORIZED")


def test_unreachable_key_provider_is_provider_error_except_on_public_routes(services: Services) -> None:
    probe = serve_with(services, f"http://127.0.0.1:{closed_port()}/jwks.json")
    token = jwt.encode(
        claims_of(uuid4()), ec.generate_private_key(ec.SECP256R1()), "ES256", headers={"kid": "first"}
    )
    for _ in range(3):
        body = assert_problem(request_with(probe, token), 502, "PROVIDER_UNAVAILABLE")
        assert "127.0.0.1" not in json.dumps(body["detail"])
        assert request_with(probe, token, "public").json["data"] == {"user": None}


def test_failed_first_fetch_is_not_repeated_per_request(
    services: Services, keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = serve_with(services, keys.url)
    keys.status = 500
    token = keys.token(uuid4(), key_id="first")
    for _ in range(20):
        assert_problem(request_with(probe, token), 502, "PROVIDER_UNAVAILABLE")
    assert keys.fetches == 1
    keys.status = 200
    eventually(lambda: request_with(probe, token).status_code == 200)


def test_known_keys_stay_valid_when_provider_answers_garbage(
    probe: FlaskClient, keys: KeyServer, no_fetch_interval: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_KEYS_FRESH_SECONDS", 0)
    token = keys.token(uuid4(), key_id="first")
    assert request_with(probe, token).status_code == 200
    for body in (b"", b"[]", b"{}", b'{"keys": null}', b'{"keys": ["x", 7]}', b'{"keys": [null]}', b"<html>"):
        keys.body = body
        assert request_with(probe, token).status_code == 200, body
    keys.body, keys.status = None, 404
    assert request_with(probe, token).status_code == 200
    unknown = keys.token(uuid4(), key_id="first", named="unknown")
    assert_problem(request_with(probe, unknown), 401, "AUTH_UNAUTHORIZED")


def test_known_keys_stay_valid_when_provider_is_unreachable(
    services: Services, no_fetch_interval: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_KEYS_FRESH_SECONDS", 0)
    with KeyServer() as keys:
        keys.add_key("first")
        probe = serve_with(services, keys.url)
        token = keys.token(uuid4(), key_id="first")
        assert request_with(probe, token).status_code == 200
    assert request_with(probe, token).status_code == 200


def test_unusable_published_keys_do_not_affect_valid_keys(services: Services, keys: KeyServer) -> None:
    keys.others = [
        {"kty": "NEW", "kid": "of-tomorrow"},
        {"kty": "EC", "kid": "broken", "crv": "P-256", "x": "!", "y": "!"},
        {"kty": "EC", "kid": "strange", "crv": "P-000", "x": "AA", "y": "AA"},
        keys.published("first") | {"kid": "for-encryption", "use": "enc"},
        {name: value for name, value in keys.published("first").items() if name != "kid"},
    ]
    probe = serve_with(services, keys.url)
    assert request_with(probe, keys.token(uuid4(), key_id="first")).status_code == 200
    for named in ("of-tomorrow", "broken", "for-encryption"):
        token = keys.token(uuid4(), key_id="first", named=named)
        assert_problem(request_with(probe, token), 401, "AUTH_UNAUTHORIZED")
    assert keys.fetches == 1


def test_concurrent_first_requests_share_key_fetch(services: Services, keys: KeyServer) -> None:
    app = serve_with(services, keys.url).application
    tokens = [keys.token(uuid4(), key_id="first") for _ in range(8)]
    answers = at_once([partial(request_with, app.test_client(), token) for token in tokens])
    assert [answer.status_code for answer in answers] == [200] * 8
    assert keys.fetches == 1


def test_tokens_before_and_after_sandbox_key_rotation_are_accepted(
    services: Services, tmp_path: Path, no_fetch_interval: None
) -> None:
    with ProvidersServer(
        "127.0.0.1", 0, tmp_path, secret_key="sk_test_x", webhook_url="http://127.0.0.1:9/"
    ) as server:
        issuer = server.identity_issuer
        jwks = f"{issuer}/.well-known/jwks.json"
        probe = serve_with(services, jwks, identity_issuer=issuer)

        def token(**more: object) -> str:
            body = {"persona": "buyer", **more}
            answer = requests.post(f"{issuer}/sandbox/token", json=body, timeout=10)
            return str(answer.json()["access_token"])

        before = token()
        assert request_with(probe, before).json["data"] == {"user": str(persona_named("buyer").user_id)}
        requests.post(f"{issuer}/sandbox/rotate", timeout=10).raise_for_status()
        after = token()
        assert jwt.get_unverified_header(before)["kid"] != jwt.get_unverified_header(after)["kid"]
        for good in (before, after):
            assert request_with(probe, good).status_code == 200
        assert_problem(request_with(probe, token(expired=True)), 401, "AUTH_TOKEN_EXPIRED")
        for claims in ({"aud": "another"}, {"iss": ISSUER}, {"sub": None}, {"exp": None}, {"iss": None}):
            assert_problem(request_with(probe, token(claims=claims)), 401, "AUTH_UNAUTHORIZED")
