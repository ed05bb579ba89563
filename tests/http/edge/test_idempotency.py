"""Idempotency keys: a repeated request has a single effect and receives the identical response."""

from typing import Any
from uuid import uuid4

import pytest

from marketplace.identity.models import Profile
from marketplace.kernel.errors import (
    ConflictError,
    ForbiddenError,
    MarketplaceError,
    NotFoundError,
    ProviderUnavailableError,
    RateLimitError,
    ServiceUnavailableError,
    ValidationError,
)
from marketplace.services import Services
from tests.support.idempotency_counter import Counter, QuarantinedError, WrongPinError
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, changed, faults


@pytest.fixture
def counter(services: Services) -> Counter:
    return Counter(services)


@pytest.fixture
def headers(bearer: Bearer) -> dict[str, str]:
    return bearer(uuid4())


def is_replay(response: Any) -> bool:
    return bool(response.headers.get("X-Cache-Lookup") == "HIT")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x",
        "7",
        "0b7c9a52-6a3e-1f5e-9d0e-2f1c8f6a7b11",
        "01931f3e-7c00-7000-8000-000000000000",
        "00000000-0000-0000-0000-000000000000",
        "0b7c9a526a3e4f5e9d0e2f1c8f6a7b11",
        "0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11x",
        "0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11,0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11",
    ],
)
def test_key_other_than_uuid_version_4_is_refused(
    counter: Counter, headers: dict[str, str], key: str
) -> None:
    for path in ("required", "optional/a", "phased"):
        assert faults(counter.send(path, key, headers)) == ["Idempotency-Key"]
    assert counter.calls == counter.effects.count() == 0


def test_key_may_be_omitted_only_where_optional(counter: Counter, headers: dict[str, str]) -> None:
    assert faults(counter.send("required", None, headers)) == ["Idempotency-Key"]
    for _ in range(2):
        assert counter.send("optional/a", None, headers).status_code == 200
    assert counter.effects.count() == 2
    key = uuid4()
    for _ in range(2):
        assert not is_replay(counter.send("unread", key, headers))
    assert counter.effects.count() == 4


def test_replay_has_identical_body_and_fresh_headers(counter: Counter, headers: dict[str, str]) -> None:
    key = uuid4()
    first = counter.send("required", key, headers)
    assert (first.status_code, is_replay(first)) == (201, False)
    counter.later(60)
    for given in (key, str(key).upper(), f" {key} "):
        again = counter.send("required", given, headers)
        assert (again.status_code, is_replay(again)) == (201, True)
        assert again.get_data() == first.get_data()
        assert again.content_type == first.content_type
        assert again.headers["X-Request-ID"] != first.headers["X-Request-ID"]
        assert again.headers["Cache-Control"] == "no-store"
        assert "RateLimit-Remaining" in again.headers
    assert (counter.calls, counter.effects.count()) == (1, 1)


def test_versioned_path_shares_key_scope(counter: Counter, headers: dict[str, str]) -> None:
    given = headers | {"Idempotency-Key": str(uuid4())}
    first = counter.client.post("/api/v1/probe/required", json={"amount": 1}, headers=given)
    again = counter.client.post("/api/probe/required", json={"amount": 1}, headers=given)
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert first.get_data() == again.get_data()


def test_other_caller_or_path_has_separate_key_scope(
    counter: Counter, headers: dict[str, str], bearer: Bearer
) -> None:
    key = uuid4()
    sent = [
        counter.send("optional/a", key, headers),
        counter.send("optional/b", key, headers),
        counter.send("optional/a", key, bearer(uuid4())),
        counter.send("required", key, headers),
    ]
    assert not any(is_replay(response) for response in sent)
    assert counter.effects.count() == 4
    assert is_replay(counter.send("optional/b", key, headers))


def test_same_key_with_different_body_is_refused(counter: Counter, headers: dict[str, str]) -> None:
    key = uuid4()
    assert counter.send("required", key, headers, {"amount": 1}).status_code == 201
    for other in ({"amount": 2}, {"amount": 1, "note": "x"}):
        refused = counter.send("required", key, headers, other)
        assert (faults(refused), is_replay(refused)) == (["Idempotency-Key"], False)
        assert refused.json["reason"] == "idempotency-key-reused"
    # Field order, white space and explicit defaults do not change the request.
    given = headers | {"Idempotency-Key": str(key), "Content-Type": "application/json"}
    for same in (b'{"note": null, "amount":1}', b' {"amount" : 1 } '):
        assert is_replay(counter.client.post("/api/probe/required", data=same, headers=given))
    assert counter.effects.count() == 1


def test_invalid_body_does_not_use_key(counter: Counter, headers: dict[str, str]) -> None:
    key = uuid4()
    assert faults(counter.send("required", key, headers, {"amount": 0})) == ["amount"]
    assert counter.send("required", key, headers, {"amount": 5}).json["data"]["amount"] == 5


@pytest.mark.parametrize(
    "error",
    [NotFoundError("gone"), ValidationError.of("amount", "too much"), ForbiddenError("not yours")],
    ids=lambda error: error.code,
)
@pytest.mark.parametrize("path", ["required", "phased"])
def test_final_refusal_is_stored_and_replayed(
    counter: Counter, headers: dict[str, str], error: MarketplaceError, path: str
) -> None:
    key = uuid4()
    counter.error = error
    first = counter.send(path, key, headers)
    assert_problem(first, error.status, error.code)
    kept = counter.effects.count()
    again = counter.send(path, key, headers)
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert again.get_data() == first.get_data()
    assert (again.status_code, again.content_type) == (error.status, "application/problem+json")
    assert counter.calls == 1
    # Earlier phases stay committed; the refused last phase rolls back.
    assert counter.effects.count() == kept == (1 if path == "phased" else 0)
    assert faults(counter.send(path, key, headers, {"amount": 2})) == ["Idempotency-Key"]


@pytest.mark.parametrize(
    "error",
    [
        ConflictError("not now"),
        RateLimitError("slowly", retry_after_seconds=3),
        ProviderUnavailableError("no answer"),
        ServiceUnavailableError("too busy", retry_after_seconds=3),
        RuntimeError("it broke"),
        WrongPinError("wrong", extensions={"attemptsLeft": 4}),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("path", ["required", "phased"])
def test_temporary_refusal_frees_key_for_another_body(
    counter: Counter, headers: dict[str, str], error: Exception, path: str
) -> None:
    key = uuid4()
    counter.error = error
    refused = counter.send(path, key, headers, {"amount": 1})
    assert refused.status_code in (400, 409, 429, 500, 502, 503)
    retried = counter.send(path, key, headers, {"amount": 2})
    assert (retried.status_code // 100, is_replay(retried)) == (2, False)
    assert retried.json["data"]["amount"] == 2
    again = counter.send(path, key, headers, {"amount": 2})
    assert is_replay(again)
    assert again.get_data() == retried.get_data()
    early_phases = 2 if path == "phased" else 0
    kept = 1 if isinstance(error, WrongPinError) else 0
    assert counter.effects.count() == early_phases + kept + 1


def test_final_refusal_that_keeps_changes_is_stored_and_replayed(
    counter: Counter, headers: dict[str, str]
) -> None:
    key = uuid4()
    counter.error = QuarantinedError.of("amount", "Looked at by hand.")
    first = counter.send("required", key, headers)
    assert faults(first) == ["amount"]
    assert counter.effects.count() == 1
    again = counter.send("required", key, headers)
    assert is_replay(again)
    assert again.get_data() == first.get_data()
    assert (counter.calls, counter.effects.count()) == (1, 1)


def test_rate_limited_request_uses_no_key(services: Services, bearer: Bearer) -> None:
    counter = Counter(changed(services, rate_limit_scale=1))
    headers, first, second = bearer(uuid4()), uuid4(), uuid4()
    assert counter.send("limited", first, headers).status_code == 200
    for key in (first, second):
        refused = counter.send("limited", key, headers)
        assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")
        assert not is_replay(refused)
    assert counter.effects.count() == 1


def test_stored_response_expires_after_24_hours(counter: Counter, headers: dict[str, str]) -> None:
    key = uuid4()
    first = counter.send("required", key, headers)
    counter.later(24 * 3600 - 1)
    assert counter.send("required", key, headers).get_data() == first.get_data()
    counter.later(1)
    fresh = counter.send("required", key, headers, {"amount": 3})
    assert (fresh.status_code, is_replay(fresh)) == (201, False)
    assert counter.effects.count() == 2
    counter.later(24 * 3600 - 1)
    assert is_replay(counter.send("required", key, headers, {"amount": 3}))


def test_caller_without_access_gets_no_replay(counter: Counter, market: Market, bearer: Bearer) -> None:
    user_id, key = market.person(), uuid4()
    assert counter.send("required", key, bearer(user_id)).status_code == 201
    assert_problem(counter.send("required", key, {}), 401, "AUTH_UNAUTHORIZED")
    assert_problem(counter.send("required", key, bearer(user_id, exp=1)), 401, "AUTH_TOKEN_EXPIRED")
    market.change(Profile, user_id, account_status="suspended")
    assert_problem(counter.send("required", key, bearer(user_id)), 403, "AUTH_FORBIDDEN")
