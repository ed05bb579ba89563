"""Leases of idempotency keys: taken over, completed, released."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
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
from marketplace.infra.db import Database
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


def test_acquisition_commits_without_waiting_for_the_disk(session: Session, scope: KeyScope) -> None:
    session.execute(text("SET LOCAL synchronous_commit = on"))

    lease(session, scope)

    assert session.scalar(text("SHOW synchronous_commit")) == "off"


def test_commits_after_an_acquisition_wait_for_the_disk(
    committed_database: Database, scope: KeyScope
) -> None:
    with committed_database.reading() as session:
        # The test server's default is off.
        session.execute(text("SET synchronous_commit = on"))
        lease(session, scope)
        setting = session.scalar(text("SHOW synchronous_commit"))
        session.execute(text("RESET synchronous_commit"))

    assert setting == "on"
