"""Authentication of requests: verify the bearer token, find the caller, and check access to the route."""

import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

from flask import request
from sqlalchemy.orm import Session

from blueprints.http import limits, texts
from blueprints.http.context import Context
from blueprints.http.contract import Access, Contract, TokenPolicy
from blueprints.http.function_auth import authenticate_function_call
from marketplace.identity import operations, queries
from marketplace.identity.queries import Caller
from marketplace.identity.sign_ins import record_staff_sign_in
from marketplace.kernel.errors import (
    AccountErasedError,
    ForbiddenError,
    ProviderUnavailableError,
    RecentSignInRequiredError,
    ServiceUnavailableError,
    StepUpRequiredError,
    TokenExpiredError,
    UnauthorizedError,
)
from marketplace.providers.identity import TokenClaims

_BEARER_PREFIX = "bearer "
RECENT_SIGN_IN_SECONDS = 15 * 60


def authenticate(context: Context, contract: Contract) -> None:
    """Set the request's caller on the context, and check access to the route.

    A request that is refused because of its token counts against the rate limit of its address.

    :raises UnauthorizedError: a required token is missing, or the token is invalid
    :raises TokenExpiredError: the token has expired
    :raises AccountErasedError: the person had the personal data erased
    :raises ForbiddenError: account status, role or permissions do not allow the request
    :raises StepUpRequiredError: the route requires two factors
    :raises RecentSignInRequiredError: the route requires a recent sign-in
    """
    access = contract.access
    if access.token is TokenPolicy.NONE:
        return
    if access.token is TokenPolicy.FUNCTION:
        authenticate_function_call(context.services.settings)
        return
    try:
        context.caller = _resolve_caller(context, access)
    except (UnauthorizedError, TokenExpiredError, AccountErasedError):
        if access.token is not TokenPolicy.IGNORED_IF_INVALID:
            limits.enforce_rate_limit(context, contract=None)
            raise
    except (ProviderUnavailableError, ServiceUnavailableError):
        # A public route serves cached content without the database. The caller's quota is then a buyer's.
        if access.token is not TokenPolicy.IGNORED_IF_INVALID:
            raise
    if context.caller and access.token is not TokenPolicy.IGNORED_IF_INVALID:
        _record_staff_sign_in(context, context.caller)
        try:
            access.ensure_allowed(context.caller)
            if access.recent_sign_in:
                _ensure_signed_in_recently(context)
        except (ForbiddenError, StepUpRequiredError):
            limits.count_refused_request(context, contract=contract)
            raise


# The latest sign-ins that this process has recorded, so that later requests need no statement.
_recorded_sign_ins: deque[tuple[UUID, float]] = deque(maxlen=1000)


def _record_staff_sign_in(context: Context, caller: Caller) -> None:
    """Record the first request after a sign-in of a staff member in the audit trail."""
    if not caller.is_staff or context.signed_in_at is None:
        return
    sign_in = (caller.id, context.signed_in_at)
    if sign_in in _recorded_sign_ins:
        return
    try:
        signed_in_at = datetime.fromtimestamp(context.signed_in_at, UTC)
    except (ValueError, OverflowError, OSError):
        return
    context.services.database.in_transaction(
        record_staff_sign_in, act=context.act, aal=caller.aal, signed_in_at=signed_in_at
    )
    _recorded_sign_ins.append(sign_in)


def _ensure_signed_in_recently(context: Context) -> None:
    # Tokens are checked by the machine's clock, as their expiry.
    if context.signed_in_at is None or time.time() - context.signed_in_at > RECENT_SIGN_IN_SECONDS:
        raise RecentSignInRequiredError(texts.SIGN_IN_AGAIN)


def admit_to_path_without_contract(context: Context) -> None:
    """Count a request on the caller's tier, or on the anonymous tier if the caller is unknown.

    Only the quota depends on the caller here. An invalid token or an unavailable database is therefore ignored.

    :raises RateLimitError: the quota is used up
    """
    with suppress(
        UnauthorizedError,
        TokenExpiredError,
        AccountErasedError,
        ProviderUnavailableError,
        ServiceUnavailableError,
    ):
        context.caller = _resolve_caller(context, Access("any", TokenPolicy.IGNORED_IF_INVALID))
    limits.enforce_rate_limit(context, contract=None)


def _resolve_caller(context: Context, access: Access) -> Caller | None:
    header = request.headers.get("Authorization")
    if header is None:
        if access.token is TokenPolicy.REQUIRED:
            raise UnauthorizedError(texts.AUTHORIZATION_MISSING)
        return None
    if header[: len(_BEARER_PREFIX)].lower() != _BEARER_PREFIX or not header[len(_BEARER_PREFIX) :].strip():
        raise UnauthorizedError(texts.AUTHORIZATION_MALFORMED)
    claims = context.services.token_verifier.verify(header[len(_BEARER_PREFIX) :].strip())
    context.token_user_id, context.token_expires_at = claims.user_id, claims.expires_at
    context.signed_in_at = claims.signed_in_at
    with context.services.database.reading() as session:
        caller = queries.find_caller(session, user_id=claims.user_id, aal=claims.aal, now=context.now)
    # A user with a valid token may lack a profile, because the provisioning hook can be lost.
    return caller or context.services.database.in_transaction(_provision_profile, claims, context)


def _provision_profile(session: Session, claims: TokenClaims, context: Context) -> Caller | None:
    operations.create_profile(
        session, user_id=claims.user_id, email=claims.email, name=claims.name, now=context.now
    )
    return queries.find_caller(session, user_id=claims.user_id, aal=claims.aal, now=context.now)
