"""Token cache: a verified token is remembered only as long as verification would give the same result."""

import time
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import TokenExpiredError, UnauthorizedError
from marketplace.providers import identity
from marketplace.providers.identity import LEEWAY_SECONDS, TokenVerifier

SECRET = "a-shared-secret-of-the-tests-only-32b"
SETTINGS = Settings(
    identity_issuer="http://issuer", identity_algorithms=("HS256",), identity_shared_secret=SECRET
)


def token_of(user_id: UUID, **changes: Any) -> str:
    claims = {"iss": "http://issuer", "aud": SETTINGS.identity_audience, "sub": str(user_id)}
    return jwt.encode(claims | {"exp": int(time.time()) + 600} | changes, SECRET, algorithm="HS256")


def test_second_verification_returns_the_cached_result() -> None:
    verifier, user_id = TokenVerifier(SETTINGS), uuid4()
    token = token_of(user_id, aal="aal2", name="Ada")
    first = verifier.verify(token)
    assert verifier.verify(token) is first
    assert (first.user_id, first.aal, first.name) == (user_id, "aal2", "Ada")


def test_cached_token_still_expires() -> None:
    verifier = TokenVerifier(SETTINGS)
    expires = int(time.time()) - LEEWAY_SECONDS + 2
    token = token_of(uuid4(), exp=expires)
    verifier.verify(token)

    def verify_on() -> None:
        while time.time() < expires + LEEWAY_SECONDS + 1:
            verifier.verify(token)

    # The token may expire between the clock check and the call, so any call may be the refused one.
    with pytest.raises(TokenExpiredError):
        verify_on()
    assert time.time() >= expires + LEEWAY_SECONDS


def test_altered_token_is_not_found_in_cache() -> None:
    verifier = TokenVerifier(SETTINGS)
    token = token_of(uuid4())
    verifier.verify(token)
    head, _, signature = token.split(".")
    _, claims, _ = token_of(uuid4()).split(".")
    with pytest.raises(UnauthorizedError):
        verifier.verify(f"{head}.{claims}.{signature}")


def test_refused_token_is_refused_again() -> None:
    verifier = TokenVerifier(SETTINGS)
    token = token_of(uuid4(), aud="another")
    for _ in range(2):
        with pytest.raises(UnauthorizedError):
            verifier.verify(token)


def test_oldest_token_is_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_MAX_CACHED_TOKENS", 3)
    verifier = TokenVerifier(SETTINGS)
    tokens = [token_of(uuid4()) for _ in range(4)]
    first = [verifier.verify(token) for token in tokens]
    second = [verifier.verify(token) for token in reversed(tokens)]
    assert [one is other for one, other in zip(first, reversed(second), strict=True)] == [
        False,
        *[True] * 3,
    ]
