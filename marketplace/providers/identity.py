"""Verification of access tokens with the identity provider's published keys or a shared secret (HS256)."""

import hashlib
import math
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
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_log = structlog.get_logger(__name__)

LEEWAY_SECONDS = 30
_MAX_TOKEN_LENGTH = 8192
_KEYS_FRESH_SECONDS = 3600
# Tokens with invented key ids must not cause a fetch each.
_MIN_FETCH_INTERVAL_SECONDS = 5
# Without keys no token is valid, so this interval is short. A provider outage must not delay every request, though.
_MIN_FIRST_FETCH_INTERVAL_SECONDS = 1
_MAX_CACHED_TOKENS = 4096  # verified tokens per process
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


@dataclass(frozen=True)
class TokenClaims:
    """The claims of a valid token. Role and permissions come from the database instead.

    ``aal`` is the assurance level: ``aal2`` after two-factor authentication, else ``aal1``.
    ``expires_at`` is in seconds since 1970, with the leeway for clocks that differ. ``signed_in_at`` is the time of the
    sign-in (``auth_time``), else of the token (``iat``), in seconds since 1970; none if the token has neither.
    """

    user_id: UUID
    email: str | None
    name: str | None
    aal: str
    expires_at: float
    signed_in_at: float | None = None


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A cached verification. The result stays valid while the signing key is in use and until the token expires."""

    claims: TokenClaims
    algorithm: str
    key_id: str
    key: Any


class KeySet:
    """The provider's published keys, cached. Old keys or an unknown key id trigger a new fetch."""

    def __init__(self, url: str) -> None:
        self._client = ProviderClient("identity provider", url, timeout_seconds=3.0)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def find_key(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key of an id, or none if the provider does not publish such a key.

        :raises ProviderUnavailableError: no keys are cached and the fetch failed
        """
        key = self._keys.get(key_id)
        # While another thread fetches, a stale key is still good. Only threads without a key wait.
        is_stale = time.monotonic() - self._fetched_at > _KEYS_FRESH_SECONDS
        if (key is None or is_stale) and self._lock.acquire(blocking=key is None):
            try:
                pause = _MIN_FETCH_INTERVAL_SECONDS if self._keys else _MIN_FIRST_FETCH_INTERVAL_SECONDS
                if time.monotonic() - self._tried_at > pause:
                    self._fetch()
            finally:
                self._lock.release()
        if not self._keys:
            raise ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider="identity provider"))
        return self._keys.get(key_id)

    def has_keys(self) -> bool:
        """Return whether the provider has published a usable key, at most some minutes ago."""
        try:
            self.find_key("")
        except ProviderUnavailableError:
            return False
        return True

    def _fetch(self) -> None:
        try:
            published = self._client.get("")["keys"]
            keys = {key["kid"]: usable for key in published if (usable := _parse_key(key)) is not None}
        except (ProviderUnavailableError, ProviderRefusedError, KeyError, TypeError) as error:
            _log.warning("identity keys not fetched", error=type(error).__name__)
            return
        finally:
            # Set after the fetch, so that concurrent threads wait for the keys instead of failing.
            self._tried_at = time.monotonic()
        if keys:
            self._keys, self._fetched_at = keys, time.monotonic()
        else:
            # An empty key set is more likely a fault of the provider than intent, so keep the old keys.
            _log.warning("identity provider publishes no usable keys")


def _parse_key(key: Any) -> jwt.PyJWK | None:
    """Parse a published key, or return none for an unsupported key, so that the other keys remain usable."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig" or not isinstance(key.get("kid"), str):
        return None
    try:
        return jwt.PyJWK(key)
    except (jwt.PyJWTError, ValueError, TypeError):
        _log.info("identity key type not supported", kind=str(key.get("kty"))[:20])
        return None


class TokenVerifier:
    """A verifier of access tokens: signature, algorithm, issuer, audience, expiry and subject.

    Clients send the same token repeatedly, and checking a signature takes longer than most queries. Verified tokens are
    therefore cached by digest while the signing key is in use.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys = KeySet(settings.identity_jwks_url) if settings.identity_jwks_url else None
        self._verified: dict[bytes, _VerifiedToken] = {}

    def verify(self, token: str) -> TokenClaims:
        """Verify a token and return the claims.

        :param token: a JSON Web Token in compact form
        :raises TokenExpiredError: the token has expired
        :raises UnauthorizedError: the token is invalid
        :raises ProviderUnavailableError: the provider's keys cannot be fetched
        """
        if len(token) > _MAX_TOKEN_LENGTH:
            raise UnauthorizedError("The bearer token is too long.")
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        cached = self._verified.get(digest)
        # A new verification would have the same result until the key changes or the token expires.
        if (
            cached is not None
            and time.time() < cached.claims.expires_at
            and self._require_key(cached.algorithm, cached.key_id) is cached.key
        ):
            return cached.claims
        verified = self._verify(token)
        while len(self._verified) >= _MAX_CACHED_TOKENS:
            self._verified.pop(next(iter(self._verified)), None)
        self._verified[digest] = verified
        return verified.claims

    def has_usable_key(self) -> bool:
        """Return whether a token can be verified: with the shared secret, or with a published key."""
        if "HS256" in self._settings.identity_algorithms and self._settings.identity_shared_secret:
            return True
        return self._keys is not None and self._keys.has_keys()

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
            raise UnauthorizedError("The bearer token is invalid.") from error
        user_id = parse_uuid(claims["sub"])
        if user_id is None:
            raise UnauthorizedError("The subject (sub) of the bearer token is not a UUID.")
        return _VerifiedToken(
            TokenClaims(
                user_id=user_id,
                email=_read_text_claim(claims.get("email"), 320),
                name=_read_text_claim(claims.get("name"), 200),
                aal="aal2" if claims.get("aal") == "aal2" else "aal1",
                expires_at=int(claims["exp"]) + LEEWAY_SECONDS,
                signed_in_at=_read_time_claim(claims.get("auth_time", claims.get("iat"))),
            ),
            algorithm,
            key_id,
            key,
        )

    def _require_key(self, algorithm: str, key_id: str) -> Any:
        """Return the verification key for a token's algorithm and key id.

        :raises UnauthorizedError: the algorithm is not accepted, or the key is unknown
        """
        if algorithm in self._settings.identity_algorithms:
            if algorithm == "HS256":
                return self._settings.identity_shared_secret
            key = self._keys.find_key(key_id) if self._keys else None
            if key is not None:
                return key
        raise UnauthorizedError("The bearer token is signed with an unknown key or an unsupported algorithm.")


def _read_time_claim(value: Any) -> float | None:
    """Read a time in seconds since 1970. The claim is optional, so another type counts as missing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _read_text_claim(value: Any, max_length: int) -> str | None:
    """Read an optional claim. Values that the database cannot store (NUL, lone surrogates) are ignored."""
    is_usable = isinstance(value, str) and 0 < len(value) <= max_length and not _UNSTORABLE.search(value)
    return value if is_usable else None
