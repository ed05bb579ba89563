"""The sandbox identity provider over real HTTP: verifiable tokens, and sign-in with a browser."""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import jwt
import pytest
import requests

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.identity_accounts import HttpIdentityAccounts
from sandbox.personas import PERSONAS, UnknownPersonaError, persona_named
from sandbox.providers.server import ProvidersServer

AUDIENCE = "campus-marketplace"
TIMEOUT_SECONDS = 20
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CALLBACK = "http://127.0.0.1:8000/admin/callback"


def served(data: Path, **options: Any) -> ProvidersServer:
    return ProvidersServer(
        "127.0.0.1", 0, data, secret_key="sk_test_x", webhook_url="http://127.0.0.1:9/", **options
    )


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path) as server:
        yield server.identity_issuer


def get(address: str, **options: Any) -> requests.Response:
    return requests.get(address, timeout=TIMEOUT_SECONDS, allow_redirects=False, **options)


def post(address: str, **options: Any) -> requests.Response:
    return requests.post(address, timeout=TIMEOUT_SECONDS, allow_redirects=False, **options)


def token_for(issuer: str, persona: str, **more: object) -> str:
    response = post(f"{issuer}/sandbox/token", json={"persona": persona, **more})
    assert response.status_code == 200, response.text
    assert response.json()["token_type"] == "Bearer"
    return str(response.json()["access_token"])


def verified(issuer: str, token: str, audience: str = AUDIENCE) -> dict[str, Any]:
    """Verify a token by discovery, like a client of any OpenID Connect provider."""
    discovery = get(f"{issuer}/.well-known/openid-configuration").json()
    assert discovery["issuer"] == issuer
    keys = jwt.PyJWKSet.from_dict(get(discovery["jwks_uri"]).json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return dict(jwt.decode(token, key, algorithms=["ES256"], audience=audience, issuer=issuer))


def test_each_persona_has_a_verifiable_token(issuer: str) -> None:
    for persona in PERSONAS:
        claims = verified(issuer, token_for(issuer, persona.name))
        assert claims["sub"] == str(persona.user_id)
        assert (claims["email"], claims["name"], claims["aal"]) == (persona.email, persona.full_name, "aal1")
        assert claims["exp"] - claims["iat"] == 3_600


def test_personas_are_distinct_and_have_the_agreed_names() -> None:
    names = (
        "buyer buyer2 vendor vendor2 admin admin2 finance finance2 orders support moderator compliance"
        " campus-rep restricted suspended nobody"
    )
    assert [persona.name for persona in PERSONAS] == names.split()
    for field in ("user_id", "email", "phone", "full_name"):
        assert len({getattr(persona, field) for persona in PERSONAS}) == len(PERSONAS)
    assert all(UUID(str(persona.user_id)).version == 7 for persona in PERSONAS)
    assert all((persona.role == "staff") == (persona.staff_role is not None) for persona in PERSONAS)
    assert [persona.name for persona in PERSONAS if not persona.has_profile] == ["nobody"]
    assert persona_named("suspended").account_status == "suspended"
    with pytest.raises(UnknownPersonaError, match="campus-rep"):
        persona_named("somebody")


def test_token_can_have_second_factor_or_be_expired(issuer: str) -> None:
    assert verified(issuer, token_for(issuer, "admin", aal2=True))["aal"] == "aal2"
    with pytest.raises(jwt.ExpiredSignatureError):
        verified(issuer, token_for(issuer, "buyer", expired=True))


def test_claims_can_be_replaced_and_removed(issuer: str) -> None:
    claims = verified(issuer, token_for(issuer, "buyer", claims={"email": None, "aal": 7, "extra": ["x"]}))
    assert "email" not in claims
    assert (claims["aal"], claims["extra"]) == (7, ["x"])
    with pytest.raises(jwt.InvalidAudienceError):
        verified(issuer, token_for(issuer, "buyer", claims={"aud": "other"}))
    with pytest.raises(jwt.MissingRequiredClaimError):
        verified(issuer, token_for(issuer, "buyer", claims={"aud": None}))
    token_for(issuer, "buyer", claims={"sub": 12, "iss": [], "exp": "soon"})


def test_unknown_persona_is_answered_with_known_personas(issuer: str) -> None:
    response = post(f"{issuer}/sandbox/token", json={"persona": "somebody"})
    assert response.status_code == 404
    assert response.json()["personas"] == [persona.name for persona in PERSONAS]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"persona": 1},
        {"persona": "buyer", "aal2": "yes"},
        {"persona": "buyer", "claims": []},
        {"who": "x"},
        [],
    ],
)
def test_invalid_token_request_names_the_field(issuer: str, wrong: object) -> None:
    response = post(f"{issuer}/sandbox/token", json=wrong)
    assert response.status_code == 422
    assert response.json()["field"]


def test_key_rotation_keeps_earlier_tokens_valid(issuer: str) -> None:
    old = token_for(issuer, "buyer")
    rotated = post(f"{issuer}/sandbox/rotate").json()["kid"]
    new = token_for(issuer, "buyer")
    assert jwt.get_unverified_header(new)["kid"] == rotated != jwt.get_unverified_header(old)["kid"]
    assert verified(issuer, old)["sub"] == verified(issuer, new)["sub"]
    for _ in range(6):
        post(f"{issuer}/sandbox/rotate")
    keys = get(f"{issuer}/.well-known/jwks.json").json()["keys"]
    assert len(keys) == 5
    assert all("d" not in key for key in keys)


def test_keys_survive_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        before = get(f"{server.identity_issuer}/.well-known/jwks.json").json()
    with served(tmp_path) as server:
        assert get(f"{server.identity_issuer}/.well-known/jwks.json").json() == before
    assert (tmp_path / "identity.sqlite3").stat().st_mode & 0o777 == 0o600


# Sign-in with a browser


def parameters(**changes: str | None) -> dict[str, str]:
    values = {
        "response_type": "code",
        "client_id": "back-office",
        "redirect_uri": CALLBACK,
        "scope": "openid email",
        "state": "state-1",
        "nonce": "nonce-1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return {name: value for name, value in values.items() if value is not None}


def code_for(issuer: str, persona: str, **form: str) -> str:
    response = post(f"{issuer}/authorize", data={**parameters(), "persona": persona, **form})
    assert response.status_code == 303
    target = urlsplit(response.headers["Location"])
    assert f"{target.scheme}://{target.netloc}{target.path}" == CALLBACK
    query = parse_qs(target.query)
    assert query["state"] == ["state-1"]
    return query["code"][0]


def exchange(issuer: str, code: str, **changes: str) -> requests.Response:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": VERIFIER,
        "client_id": "back-office",
        "redirect_uri": CALLBACK,
        **changes,
    }
    return post(f"{issuer}/token", data=form)


def test_browser_signs_in_with_a_code(issuer: str) -> None:
    page = get(f"{issuer}/authorize", params=parameters())
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert re.findall(r'name="persona" value="([^"]+)"', page.text) == [one.name for one in PERSONAS]
    answer = exchange(issuer, code_for(issuer, "finance", aal2="on"))
    assert answer.headers["Cache-Control"] == "no-store"
    issued = answer.json()
    access = verified(issuer, issued["access_token"])
    assert (access["sub"], access["aal"]) == (str(persona_named("finance").user_id), "aal2")
    identifying = verified(issuer, issued["id_token"], audience="back-office")
    assert (identifying["nonce"], identifying["aal"]) == ("nonce-1", "aal2")
    known = get(f"{issuer}/userinfo", headers={"Authorization": f"Bearer {issued['access_token']}"}).json()
    assert (known["sub"], known["phone_number"]) == (access["sub"], persona_named("finance").phone)


def test_code_works_once_and_only_for_the_same_request(issuer: str) -> None:
    code = code_for(issuer, "orders")
    assert exchange(issuer, code).status_code == 200
    assert exchange(issuer, code).json()["error"] == "invalid_grant"
    for changes in (
        {"code_verifier": "w" * 64},
        {"client_id": "other"},
        {"redirect_uri": "http://127.0.0.1:8000/other"},
    ):
        refused = exchange(issuer, code_for(issuer, "orders"), **changes)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://elsewhere.example.com/"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": None},
        {"response_type": "token"},
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"scope": "email"},
        {"client_id": None},
    ],
)
def test_invalid_sign_in_request_is_refused_without_redirect(
    issuer: str, changes: dict[str, str | None]
) -> None:
    response = get(f"{issuer}/authorize", params=parameters(**changes))
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"
    assert post(f"{issuer}/authorize", data={**parameters(**changes), "persona": "admin"}).status_code == 400


def test_userinfo_requires_a_valid_token(issuer: str) -> None:
    for header in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eA=="}):
        assert get(f"{issuer}/userinfo", headers=header).status_code == 401
    expired = token_for(issuer, "buyer", expired=True)
    assert get(f"{issuer}/userinfo", headers={"Authorization": f"Bearer {expired}"}).status_code == 401


def test_logout_redirects_only_to_local_addresses(issuer: str) -> None:
    assert "signed out" in get(f"{issuer}/logout").text
    back = get(f"{issuer}/logout", params={"post_logout_redirect_uri": CALLBACK, "state": "s"})
    assert back.headers["Location"] == f"{CALLBACK}?state=s"
    away = get(f"{issuer}/logout", params={"post_logout_redirect_uri": "https://elsewhere.example.com/"})
    assert away.status_code == 400


def test_browser_pages_of_configured_origins_may_use_the_endpoints(tmp_path: Path) -> None:
    page, stranger = {"Origin": "http://localhost:5173"}, {"Origin": "https://evil.example"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    with served(tmp_path, cors_origins=("http://localhost:*",)) as server:
        issuer = server.identity_issuer
        for path in (
            ".well-known/openid-configuration",
            ".well-known/jwks.json",
            "token",
            "userinfo",
            "none",
        ):
            address = f"{issuer}/{path}"
            for answer in (
                get(address, headers=page),
                requests.options(address, headers=page | asked, timeout=9),
            ):
                assert answer.headers["Access-Control-Allow-Origin"] == page["Origin"]
                assert answer.headers["Vary"] == "Origin"
                assert "Access-Control-Allow-Credentials" not in answer.headers
            assert answer.status_code == 204
            assert "POST" in answer.headers["Access-Control-Allow-Methods"]
            assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
            assert answer.headers["Access-Control-Max-Age"] == "600"
            assert "Access-Control-Allow-Origin" not in get(address, headers=stranger).headers


class TestAdministration:
    """Deletion of accounts with the service's adapter."""

    KEY = "the-key-of-the-administration"

    def adapter(self, server: ProvidersServer, key: str = KEY) -> HttpIdentityAccounts:
        settings = Settings(identity_admin_url=f"{server.identity_issuer}/admin/", identity_admin_key=key)
        return HttpIdentityAccounts(settings)

    def test_deleted_account_cannot_sign_in(self, tmp_path: Path) -> None:
        with served(tmp_path, identity_admin_key=self.KEY) as server:
            self.adapter(server).delete(persona_named("buyer").user_id)

            refused = post(f"{server.identity_issuer}/authorize", data={**parameters(), "persona": "buyer"})
            assert refused.status_code == 422
            assert "deleted" in refused.text

    def test_unknown_account_is_no_error(self, tmp_path: Path) -> None:
        with served(tmp_path, identity_admin_key=self.KEY) as server:
            self.adapter(server).delete(UUID(int=7))

            accepted = post(f"{server.identity_issuer}/authorize", data={**parameters(), "persona": "buyer"})
            assert accepted.status_code == 303

    def test_wrong_key_is_refused(self, tmp_path: Path) -> None:
        with (
            served(tmp_path, identity_admin_key=self.KEY) as server,
            pytest.raises(ProviderRefusedError, match="401"),
        ):
            self.adapter(server, "another").delete(persona_named("buyer").user_id)

    def test_unreachable_provider_is_an_error(self) -> None:
        settings = Settings(identity_admin_url="http://127.0.0.1:9/admin", identity_admin_key=self.KEY)
        with pytest.raises(ProviderUnavailableError):
            HttpIdentityAccounts(settings).delete(UUID(int=7))
