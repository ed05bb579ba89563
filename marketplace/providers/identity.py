"""The identity provider: access tokens are verified against the keys that it publishes."""

import hashlib
import re
import threading
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import jwt
import structlog

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError, TokenExpiredError, UnauthorizedError
from marketplace.kernel.ids import parse_uuid
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_log = structlog.get_logger(__name__)

LEEWAY_SECONDS = 30
_MAX_TOKEN_LENGTH = 8192
_KEYS_FRESH_SECONDS = 3600
# Tokens with made-up key ids must not make us fetch for each of them.
_MIN_FETCH_INTERVAL_SECONDS = 5
# Without any keys nobody gets in, so this pause is short; but not each request may wait for who is down.
_MIN_FIRST_FETCH_INTERVAL_SECONDS = 1
_MAX_CACHED_TOKENS = 4096  # tokens that a process remembers to have checked
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


@dataclass(frozen=True)
class TokenClaims:
    """What a valid token says. Role and permissions are not among it: these come from the database."""

    user_id: UUID
    email: str | None
    name: str | None
    aal: str


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """What came of a token, and what that rests on: the key that signed it, and that its time is not over."""

    claims: TokenClaims
    algorithm: str
    key_id: str
    key: Any
    expires_at: float


class KeySet:
    """The provider's published keys: cached, fetched again when old or when a token names an unknown one."""

    def __init__(self, url: str) -> None:
        self._client = ProviderClient("identity provider", url, timeout_seconds=3.0)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def find_key(self, key_id: str) -> jwt.PyJWK | None:
        """Give the key of an id, or none if the provider does not publish one.

        :raises ProviderUnavailableError: no keys are known and none can be fetched
        """
        key = self._keys.get(key_id)
        # Whoever has a key goes on with it while another fetches; whoever has none waits for the answer.
        is_stale = time.monotonic() - self._fetched_at > _KEYS_FRESH_SECONDS
        if (key is None or is_stale) and self._lock.acquire(blocking=key is None):
            try:
                pause = _MIN_FETCH_INTERVAL_SECONDS if self._keys else _MIN_FIRST_FETCH_INTERVAL_SECONDS
                if time.monotonic() - self._tried_at > pause:
                    self._fetch()
            finally:
                self._lock.release()
        if not self._keys:
            raise ProviderUnavailableError("The identity provider did not answer. Try again.")
        return self._keys.get(key_id)

    def _fetch(self) -> None:
        try:
            published = self._client.get("")["keys"]
            keys = {key["kid"]: usable for key in published if (usable := _parse_key(key)) is not None}
        except (ProviderUnavailableError, ProviderRefusedError, KeyError, TypeError) as error:
            _log.warning("identity keys not fetched", error=type(error).__name__)
            return
        finally:
            # Only now, so that those who came meanwhile waited instead of finding no keys.
            self._tried_at = time.monotonic()
        if keys:
            self._keys, self._fetched_at = keys, time.monotonic()
        else:
            # More likely a fault of theirs than the wish to let nobody in.
            _log.warning("identity provider publishes no usable keys")


def _parse_key(key: Any) -> jwt.PyJWK | None:
    """Read a published key; one of a kind that we don't know must not cost us those that we do."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str):
        return None
    try:
        return jwt.PyJWK(key)
    except (jwt.PyJWTError, ValueError, TypeError):
        _log.info("identity key of another kind", kind=str(key.get("kty"))[:20])
        return None


class TokenVerifier:
    """Checks access tokens: signature, algorithm, issuer, audience, expiry and subject.

    People send the same token again and again, and a signature takes longer to check than most queries. So
    what was verified is remembered (by the token's digest) for as long as the same key is in force.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys = KeySet(settings.identity_jwks_url) if settings.identity_jwks_url else None
        self._verified: dict[bytes, _VerifiedToken] = {}

    def verify(self, token: str) -> TokenClaims:
        """Check a token and read its claims.

        :param token: a JSON web token in compact form
        :raises TokenExpiredError: it was valid once
        :raises UnauthorizedError: it is not valid
        :raises ProviderUnavailableError: it can't be checked, since the provider's keys can't be fetched
        """
        if len(token) > _MAX_TOKEN_LENGTH:
            raise UnauthorizedError("The bearer token is too long.")
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        cached = self._verified.get(digest)
        # Checking the token again would come to the same while its key is in force and its time not over.
        if (
            cached is not None
            and time.time() < cached.expires_at
            and self._require_key(cached.algorithm, cached.key_id) is cached.key
        ):
            return cached.claims
        verified = self._verify(token)
        while len(self._verified) >= _MAX_CACHED_TOKENS:
            self._verified.pop(next(iter(self._verified)), None)
        self._verified[digest] = verified
        return verified.claims

    def _verify(self, token: str) -> _VerifiedToken:
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = str(header.get("alg")), str(header.get("kid"))
            key = self._require_key(algorithm, key_id)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.identity_audience,
                issuer=self._settings.identity_issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["iss", "aud", "exp", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpiredError from error
        except (jwt.PyJWTError, ValueError) as error:
            raise UnauthorizedError("The bearer token is not valid.") from error
        user_id = parse_uuid(claims["sub"])
        if user_id is None:
            raise UnauthorizedError("The bearer token's subject is no UUID.")
        return _VerifiedToken(
            TokenClaims(
                user_id=user_id,
                email=_read_text_claim(claims.get("email"), 320),
                name=_read_text_claim(claims.get("name"), 200),
                aal="aal2" if claims.get("aal") == "aal2" else "aal1",
            ),
            algorithm,
            key_id,
            key,
            expires_at=int(claims["exp"]) + LEEWAY_SECONDS,
        )

    def _require_key(self, algorithm: str, key_id: str) -> Any:
        """Give the key that a token of a configured algorithm must be signed with.

        :raises UnauthorizedError: there is none
        """
        if algorithm in self._settings.identity_algorithms:
            if algorithm == "HS256":
                return self._settings.identity_shared_secret
            key = self._keys.find_key(key_id) if self._keys else None
            if key is not None:
                return key
        raise UnauthorizedError("The bearer token's key is not known.")


def _read_text_claim(value: Any, max_length: int) -> str | None:
    """Read an optional claim; what the database could not hold (NUL, half a surrogate pair) is left out."""
    is_usable = isinstance(value, str) and 0 < len(value) <= max_length and not _UNSTORABLE.search(value)
    return value if is_usable else None
