"""Access tokens: accepted and refused forms, claims, signatures and expiry."""

import json
import time
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, OPTIONAL, PUBLIC, SharedLimit
from marketplace.services import Services
from tests.conftest import AUDIENCE, SHARED_SECRET
from tests.support.probes import assert_problem, probe_area, serve
from tests.support.tokens import claims_of, segment

area = probe_area()
PROTECTED, OPEN, EITHER = "/api/probe/protected", "/api/probe/public", "/api/probe/optional"
USER_ID = UUID("0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11")
IN_2100 = 4_102_444_800


def describe_caller(ctx: Context) -> dict[str, Any]:
    return {"user": ctx.caller and ctx.caller.id, "aal": ctx.caller and ctx.caller.aal}


@area.get("/protected", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def protected(ctx: Context) -> dict[str, Any]:
    return describe_caller(ctx)


@area.get("/public", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def public(ctx: Context) -> dict[str, Any]:
    return describe_caller(ctx)


@area.get("/optional", auth=OPTIONAL, limit=SharedLimit.CALLER_TIER)
def optional(ctx: Context) -> dict[str, Any]:
    return describe_caller(ctx)


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def signed(secret: str = SHARED_SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    return jwt.encode(claims_of(uuid4(), **changes), secret, algorithm=algorithm)


def request_with(probe: FlaskClient, authorization: str | None, path: str = PROTECTED) -> Any:
    return probe.get(path, headers={} if authorization is None else {"Authorization": authorization})


def test_valid_token_identifies_caller(probe: FlaskClient) -> None:
    user_id = uuid4()
    token = jwt.encode(claims_of(user_id, aal="aal2"), SHARED_SECRET, algorithm="HS256")
    for scheme in ("Bearer", "bearer", "BEARER"):
        response = request_with(probe, f"{scheme} {token}")
        assert response.status_code == 200
        assert response.json["data"] == {"user": str(user_id), "aal": "aal2"}


@pytest.mark.parametrize("aal", [None, "aal1", "aal3", "AAL2", 2, True, ["aal2"]])
def test_any_other_aal_claim_counts_as_aal1(probe: FlaskClient, aal: object) -> None:
    assert request_with(probe, f"Bearer {signed(aal=aal)}").json["data"]["aal"] == "aal1"


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer ", "Basic dTpw", "Token x", f"Bearer{'x' * 30}"]
)
def test_request_without_bearer_token_is_unauthorized(probe: FlaskClient, authorization: str | None) -> None:
    assert_problem(request_with(probe, authorization), 401, "AUTH_UNAUTHORIZED")


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "..",
        "a.b.c",
        "a.b.c.d",
        "é.è.ê",
        f"{segment(b'{}')}.{segment(b'{}')}.",
        f"{segment(b'[]')}.{segment(b'{}')}.x",
        f"{segment(b'null')}.{segment(b'null')}.x",
        f"{segment(json.dumps({'alg': ['HS256']}).encode())}.{segment(b'{}')}.x",
        f"{segment(json.dumps({'alg': 'HS256', 'kid': {}}).encode())}.{segment(b'{}')}.x",
        f"{segment(b'[' * 5000)}.{segment(b'{}')}.x",
        f"{segment(b'{' + b'9' * 5000)}.{segment(b'{}')}.x",
        f"{segment(bytes(range(256)))}.{segment(b'{}')}.x",
        "x" * 9000,
    ],
    ids=lambda token: token[:12],
)
def test_malformed_token_is_refused_without_parser_details(probe: FlaskClient, token: str) -> None:
    body = assert_problem(request_with(probe, f"Bearer {token}"), 401, "AUTH_UNAUTHORIZED")
    assert "jwt" not in json.dumps(body).lower()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "http://another.issuer"},
        {"iss": None},
        {"aud": "another-service"},
        {"aud": ["another-service"]},
        {"aud": None},
        {"aud": []},
        {"exp": None},
        {"exp": "soon"},
        {"exp": float("inf")},
        {"sub": None},
        {"sub": ""},
        {"sub": "not-a-uuid"},
        {"sub": 7},
        {"sub": USER_ID.hex},
        {"sub": f"{{{USER_ID}}}"},
        {"nbf": IN_2100},
        {"iat": IN_2100},
    ],
    ids=repr,
)
def test_token_with_invalid_claim_is_refused(probe: FlaskClient, changes: dict[str, Any]) -> None:
    assert_problem(request_with(probe, f"Bearer {signed(**changes)}"), 401, "AUTH_UNAUTHORIZED")


def test_token_with_several_audiences_is_accepted(probe: FlaskClient) -> None:
    assert request_with(probe, f"Bearer {signed(aud=['another-service', AUDIENCE])}").status_code == 200


def test_expired_token_is_reported_after_thirty_seconds_of_leeway(probe: FlaskClient) -> None:
    for seconds_ago in (1, 25):
        assert request_with(probe, f"Bearer {signed(exp=time.time() - seconds_ago)}").status_code == 200
    for seconds_ago in (31, 3600, 10**9):
        expired = request_with(probe, f"Bearer {signed(exp=time.time() - seconds_ago)}")
        body = assert_problem(expired, 401, "AUTH_TOKEN_EXPIRED")
        assert body["title"] == "Token Expired"


def test_forged_expired_token_is_not_reported_as_expired(probe: FlaskClient) -> None:
    forged = signed("another-shared-secret-0123456789abcdef", exp=time.time() - 3600)
    assert_problem(request_with(probe, f"Bearer {forged}"), 401, "AUTH_UNAUTHORIZED")


def test_token_without_configured_signature_is_refused(probe: FlaskClient) -> None:
    claims = claims_of(uuid4())
    unsigned = jwt.encode(claims, None, algorithm="none")  # type: ignore[arg-type]
    elliptic = jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256")
    header, payload, _ = signed().split(".")
    for token in (
        signed("another-shared-secret-0123456789abcdef"),
        jwt.encode(claims, SHARED_SECRET * 2, algorithm="HS512"),
        unsigned,
        unsigned.replace(unsigned.split(".")[0], segment(b'{"alg":"None","typ":"JWT"}')),
        elliptic,
        f"{header}.{payload}.",
        f"{signed()[:-4]}AAAA",
        f"{signed()}\u00e9",
        f"{header}.{payload}",
    ):
        assert_problem(request_with(probe, f"Bearer {token}"), 401, "AUTH_UNAUTHORIZED")


def test_public_route_ignores_bad_token_and_optional_route_refuses(probe: FlaskClient) -> None:
    for path in (OPEN, EITHER):
        assert request_with(probe, None, path).json["data"]["user"] is None
        assert request_with(probe, f"Bearer {signed()}", path).json["data"]["user"] is not None
    expired = f"Bearer {signed(exp=1)}"
    for bad in ("Bearer x", "Basic dTpw", expired):
        assert request_with(probe, bad, OPEN).json["data"]["user"] is None
        assert request_with(probe, bad, EITHER).status_code == 401
    assert_problem(request_with(probe, expired, EITHER), 401, "AUTH_TOKEN_EXPIRED")


@pytest.mark.parametrize(
    "claims",
    [
        {"email": 5, "name": ["x"]},
        {"email": "a\0b@example.edu", "name": "a\0b"},
        {"email": "\ud800@example.edu", "name": "\udfff"},
        {"email": "x" * 5000, "name": ""},
        {"email": "no address", "name": "n" * 201},
    ],
    ids=["types", "null characters", "surrogates", "too long", "no address"],
)
def test_unusable_name_or_email_claim_does_not_refuse_caller(
    probe: FlaskClient, claims: dict[str, Any]
) -> None:
    assert request_with(probe, f"Bearer {signed(**claims)}").status_code == 200
