"""Idempotency keys at the edge: a repeated request has one effect and gets the same response."""

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
# A repeated request may succeed after such a refusal. The key is then released, and the refusal is not stored.
_RETRYABLE_CODES = frozenset(
    {"CONCURRENCY_CONFLICT", "ESCROW_BALANCE_DEFICIT", "RATE_LIMIT_EXCEEDED", "DELIVERY_PIN_INVALID"}
)


def read_idempotency_key(contract: Contract) -> str | None:
    """Read the Idempotency-Key header, if the route honours the header.

    :raises ValidationError: a required key is missing, or the key is not a UUID of version 4
    """
    if contract.idempotency is Idempotency.NONE:
        return None
    header = request.headers.get(IDEMPOTENCY_KEY_HEADER)
    if header is None:
        if contract.idempotency is Idempotency.REQUIRED:
            raise ValidationError.of(
                IDEMPOTENCY_KEY_HEADER, "This header is required and must be a UUID of version 4."
            )
        return None
    key = parse_uuid(header.strip(), version=4)
    if key is None:
        raise ValidationError.of(IDEMPOTENCY_KEY_HEADER, "Must be a UUID of version 4.")
    return str(key)


def perform_once(
    context: Context, *, key: str, request_hash: str, execute: Callable[[KeyLease], StoredResponse]
) -> StoredResponse:
    """Perform a request once for its key, or return the stored response.

    :param request_hash: digest of the request's body or file
    :param execute: performs the request, and completes the lease in the same transaction
    :raises MarketplaceError: the request failed, or the key is in progress or belongs to a different request
    """
    scope = KeyScope(
        caller=str(context.caller.id) if context.caller else "",
        method=request.method,
        path=request.path.replace("\0", "%00"),  # PostgreSQL cannot store NUL
        key=key,
        request_hash=request_hash,
    )
    # A single statement acquires the key, and commits by itself.
    with context.services.database.reading() as session:
        lease_or_response = operations.acquire_key(session, scope=scope, now=context.now)
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
    """Store a final refusal as the key's response. Other refusals are not stored.

    :raises ConflictError: the lease is already completed, or another request took over the lease
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
        return  # The view's transaction has stored the response already, or another request took over the lease.
    except MarketplaceError as failure:
        _log.warning("idempotent refusal not stored", error=type(failure).__name__)


def _release_key(context: Context, lease: KeyLease) -> None:
    try:
        context.services.database.in_transaction(operations.release_key, lease=lease)
    except ServiceUnavailableError:
        # The lease expires after 120 s.
        _log.warning("idempotency key not released")
