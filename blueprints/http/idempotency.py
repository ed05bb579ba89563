"""Idempotency keys at the edge: the same request twice has its effect once and the same answer twice."""

from collections.abc import Callable

import structlog
from flask import request
from sqlalchemy.orm import Session

from blueprints.http.context import Context
from blueprints.http.contract import Contract, Idempotency
from blueprints.http.problems import PROBLEM_TYPE, problem_body
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
    """Read the request's Idempotency-Key, if its route honours one.

    :raises ValidationError: it is missing where it is required, or is no UUID of version 4
    """
    if contract.idempotency is Idempotency.NONE:
        return None
    header = request.headers.get(IDEMPOTENCY_KEY_HEADER)
    if header is None:
        if contract.idempotency is Idempotency.REQUIRED:
            raise ValidationError.of(
                IDEMPOTENCY_KEY_HEADER, "This takes an Idempotency-Key header with a UUID of version 4."
            )
        return None
    key = parse_uuid(header.strip(), version=4)
    if key is None:
        raise ValidationError.of(IDEMPOTENCY_KEY_HEADER, "Must be a UUID of version 4.")
    return str(key)


def perform_once(
    context: Context, *, key: str, request_hash: str, execute: Callable[[KeyLease], StoredResponse]
) -> StoredResponse:
    """Perform a request under its key, or answer what it answered before.

    :param context: the request
    :param key: its Idempotency-Key
    :param request_hash: the digest of its body
    :param execute: does it, and completes the lease in the transaction of the effect
    :raises MarketplaceError: what perform raises; or that the key is in progress or was used otherwise
    """
    scope = KeyScope(
        caller=str(context.caller.id) if context.caller else "",
        method=request.method,
        path=request.path,
        key=key,
        request_hash=request_hash,
    )
    lease_or_response = context.services.database.in_transaction(
        operations.acquire_key, scope=scope, now=context.now
    )
    if isinstance(lease_or_response, StoredResponse):
        context.headers["X-Cache-Lookup"] = "HIT"
        return lease_or_response
    try:
        return execute(lease_or_response)
    except MarketplaceError as error:
        _store_or_release(context, lease_or_response, error)
        raise
    except BaseException:
        _release_key(context, lease_or_response)
        raise


def store_error_response(
    session: Session, context: Context, lease: KeyLease, error: MarketplaceError
) -> None:
    """Store a refusal that is final; the edge does it where changes that it keeps are written.

    :param lease: the request's
    :param error: one that may turn into a success is not stored
    :raises ConflictError: the lease is completed already, or somebody took it over
    """
    if _is_final(error):
        response = StoredResponse(error.status, PROBLEM_TYPE, problem_body(error, context))
        operations.complete_key(session, lease=lease, response=response, now=context.services.clock())


def _is_final(error: MarketplaceError) -> bool:
    return 400 <= error.status < 500 and error.code not in _RETRYABLE_CODES


def _store_or_release(context: Context, lease: KeyLease, error: MarketplaceError) -> None:
    if not _is_final(error):
        _release_key(context, lease)
        return
    try:
        context.services.database.in_transaction(store_error_response, context, lease, error)
    except ConflictError:
        return  # It is stored already, with the changes that it keeps, or somebody took the lease over.
    except MarketplaceError as failure:
        _log.warning("idempotent refusal not stored", error=type(failure).__name__)


def _release_key(context: Context, lease: KeyLease) -> None:
    try:
        context.services.database.in_transaction(operations.release_key, lease=lease)
    except ServiceUnavailableError:
        # The lease runs out by itself after 120 s.
        _log.warning("idempotency key not freed")
