"""Idempotency keys at the edge: the same request twice has its effect once and the same answer twice."""

from collections.abc import Callable

import structlog
from flask import Response, request
from sqlalchemy.orm import Session

from blueprints.http.contract import Contract, Idempotency
from blueprints.http.problems import PROBLEM_TYPE, problem_body
from blueprints.http.request_scope import RequestScope
from marketplace.idempotency import operations
from marketplace.idempotency.operations import KeyLease, KeyScope, StoredResponse
from marketplace.kernel.errors import (
    ConflictError,
    MarketplaceError,
    ServiceUnavailableError,
    ValidationError,
)
from marketplace.kernel.ids import parse_uuid

_log = structlog.get_logger(__name__)

IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"
# A refusal with one of these codes may turn into a success: it frees the key instead of being stored.
_RETRYABLE_CODES = frozenset(
    {"CONCURRENCY_CONFLICT", "ESCROW_BALANCE_DEFICIT", "RATE_LIMIT_EXCEEDED", "DELIVERY_PIN_INVALID"}
)


def read_idempotency_key(contract: Contract) -> str | None:
    """Read the request's Idempotency-Key.

    :raises ValidationError: it is missing where it is required, or is no UUID of version 4
    """
    given = request.headers.get(IDEMPOTENCY_KEY_HEADER)
    if given is None:
        if contract.idempotency is Idempotency.REQUIRED:
            raise ValidationError.of(
                IDEMPOTENCY_KEY_HEADER, "This takes an Idempotency-Key header with a UUID of version 4."
            )
        return None
    key = parse_uuid(given.strip(), version=4)
    if key is None:
        raise ValidationError.of(IDEMPOTENCY_KEY_HEADER, "Must be a UUID of version 4.")
    return str(key)


def perform_once(
    exchange: RequestScope, *, key: str, request_hash: str, perform: Callable[[KeyLease], StoredResponse]
) -> Response:
    """Perform a request under its key, or answer what it answered before.

    :param exchange: the request
    :param key: its Idempotency-Key
    :param request_hash: the digest of its body
    :param perform: does it, and completes the claim in the transaction of the effect
    :raises MarketplaceError: what perform raises; or that the key is in progress or was used otherwise
    """
    scope = KeyScope(
        caller=str(exchange.caller.id) if exchange.caller else "",
        method=request.method,
        path=request.path,
        key=key,
        request_hash=request_hash,
    )
    database = exchange.services.database
    found = database.in_transaction(operations.acquire_key, scope=scope, now=exchange.now)
    if isinstance(found, StoredResponse):
        exchange.headers["X-Cache-Lookup"] = "HIT"
        return Response(found.body, status=found.status, content_type=found.content_type)
    try:
        answer = perform(found)
    except MarketplaceError as error:
        _store_or_release(exchange, found, error)
        raise
    except BaseException:
        _release_key(exchange, found)
        raise
    return Response(answer.body, status=answer.status, content_type=answer.content_type)


def store_error_response(
    session: Session, exchange: RequestScope, claim: KeyLease, error: MarketplaceError
) -> None:
    """Store a refusal that is final; the edge does it where changes that it keeps are written.

    :param claim: the request's
    :param error: one that may turn into a success is not stored
    :raises ConflictError: the claim is completed already, or somebody took it over
    """
    if _is_final(error):
        answer = StoredResponse(error.status, PROBLEM_TYPE, problem_body(error, exchange))
        operations.complete_key(session, claim=claim, answer=answer, now=exchange.services.clock())


def _is_final(error: MarketplaceError) -> bool:
    return 400 <= error.status < 500 and error.code not in _RETRYABLE_CODES


def _store_or_release(exchange: RequestScope, claim: KeyLease, error: MarketplaceError) -> None:
    if not _is_final(error):
        _release_key(exchange, claim)
        return
    try:
        exchange.services.database.in_transaction(store_error_response, exchange, claim, error)
    except ConflictError:
        return  # It is stored already, with the changes that it keeps, or somebody took the claim over.
    except MarketplaceError as failure:
        _log.warning("idempotent refusal not stored", error=type(failure).__name__)


def _release_key(exchange: RequestScope, claim: KeyLease) -> None:
    try:
        exchange.services.database.in_transaction(operations.release_key, claim=claim)
    except ServiceUnavailableError:
        # The claim runs out by itself after 120 s.
        _log.warning("idempotency key not freed")
