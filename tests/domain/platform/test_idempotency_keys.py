"""Leases of idempotency keys: taken over, completed, released."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from marketplace.idempotency.operations import (
    LEASE_SECONDS,
    KeyLease,
    KeyScope,
    RequestInProgressError,
    RequestTakenOverError,
    StoredResponse,
    acquire_key,
    complete_key,
    release_key,
)
from tests.support.purchases import NOW

RESPONSE = StoredResponse(201, "application/json", b"{}")


@pytest.fixture
def scope() -> KeyScope:
    return KeyScope(f"user:{uuid4()}", "POST", "/api/orders", str(uuid4()), "0" * 64)


def lease(session: Session, scope: KeyScope, *, seconds: float = 0) -> KeyLease:
    acquired = acquire_key(session, scope=scope, now=NOW + timedelta(seconds=seconds))
    assert isinstance(acquired, KeyLease)
    return acquired


def test_taken_over_request_cannot_complete_key_of_running_successor(
    session: Session, scope: KeyScope
) -> None:
    first = lease(session, scope)
    second = lease(session, scope, seconds=LEASE_SECONDS)

    with pytest.raises(RequestTakenOverError):
        complete_key(session, lease=first, response=replace(RESPONSE, status=500), now=NOW)

    complete_key(session, lease=second, response=RESPONSE, now=NOW)
    assert acquire_key(session, scope=scope, now=NOW) == RESPONSE


def test_taken_over_request_cannot_release_key_of_successor(session: Session, scope: KeyScope) -> None:
    first = lease(session, scope)
    lease(session, scope, seconds=LEASE_SECONDS)

    release_key(session, lease=first)

    with pytest.raises(RequestInProgressError):
        acquire_key(session, scope=scope, now=NOW + timedelta(seconds=LEASE_SECONDS + 1))
