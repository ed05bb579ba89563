"""Who calls: the bearer token is checked, the person behind it looked up, the contract's access held."""

from contextlib import suppress

from flask import request
from sqlalchemy.orm import Session

from blueprints.http import limits
from blueprints.http.context import Context
from blueprints.http.contract import Access, Contract, TokenPolicy
from marketplace.identity import operations, queries
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import (
    ForbiddenError,
    ProviderUnavailableError,
    ServiceUnavailableError,
    StepUpRequiredError,
    TokenExpiredError,
    UnauthorizedError,
)
from marketplace.providers.identity import TokenClaims

_BEARER_PREFIX = "bearer "


def authenticate(context: Context, contract: Contract) -> None:
    """Find out who calls and whether they may, and note the caller on the request's scope.

    :param context: the request
    :param contract: its route's
    :raises UnauthorizedError: no valid token where one is needed; counted against the address
    :raises TokenExpiredError: likewise
    :raises ForbiddenError: status, role or permission don't allow it
    :raises StepUpRequiredError: it takes two factors
    """
    access = contract.access
    if access.token is TokenPolicy.NONE:
        return
    try:
        context.caller = _resolve_caller(context, access)
    except (UnauthorizedError, TokenExpiredError):
        if access.token is not TokenPolicy.IGNORED_IF_INVALID:
            limits.enforce_rate_limit(context, contract=None)
            raise
    except ProviderUnavailableError:
        if access.token is not TokenPolicy.IGNORED_IF_INVALID:
            raise
    if context.caller and access.token is not TokenPolicy.IGNORED_IF_INVALID:
        try:
            access.ensure_allowed(context.caller)
        except (ForbiddenError, StepUpRequiredError):
            limits.count_refused_request(context, contract=contract)
            raise


def admit_to_path_without_contract(context: Context) -> None:
    """Count a request on the tier of its caller, or of its address where the caller is unknown.

    Only the quota depends on the caller here. An invalid token or an unavailable database is therefore ignored.

    :raises RateLimitError: the quota is used up
    """
    with suppress(UnauthorizedError, TokenExpiredError, ProviderUnavailableError, ServiceUnavailableError):
        context.caller = _resolve_caller(context, Access("any", TokenPolicy.IGNORED_IF_INVALID))
    limits.enforce_rate_limit(context, contract=None)


def _resolve_caller(context: Context, access: Access) -> Caller | None:
    header = request.headers.get("Authorization")
    if header is None:
        if access.token is TokenPolicy.REQUIRED:
            raise UnauthorizedError("This takes a bearer token: Authorization: Bearer <ACCESS_TOKEN>.")
        return None
    if header[: len(_BEARER_PREFIX)].lower() != _BEARER_PREFIX or not header[len(_BEARER_PREFIX) :].strip():
        raise UnauthorizedError("The Authorization header is not of the form: Bearer <ACCESS_TOKEN>.")
    claims = context.services.token_verifier.verify(header[len(_BEARER_PREFIX) :].strip())
    with context.services.database.reading() as session:
        caller = queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
    # Seen for the first time: a lost provisioning hook must lock nobody out.
    return caller or context.services.database.in_transaction(_provision_profile, claims, context)


def _provision_profile(session: Session, claims: TokenClaims, context: Context) -> Caller | None:
    operations.create_profile(
        session, user_id=claims.user_id, email=claims.email, name=claims.name, now=context.now
    )
    return queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
