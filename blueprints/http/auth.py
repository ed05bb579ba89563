"""Who calls: the bearer token is checked, the person behind it looked up, the contract's access held."""

from flask import request
from sqlalchemy.orm import Session

from blueprints.http import limits
from blueprints.http.contract import Access, Contract, TokenPolicy
from blueprints.http.request_scope import RequestScope
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


def authenticate(exchange: RequestScope, contract: Contract) -> None:
    """Find out who calls and whether they may, and note the caller on the exchange.

    :param exchange: the request
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
        exchange.caller = _resolve_caller(exchange, access)
    except (UnauthorizedError, TokenExpiredError):
        if access.token is not TokenPolicy.IGNORED_IF_BAD:
            limits.enforce_anonymous_rate_limit(exchange)
            raise
    except ProviderUnavailableError:
        if access.token is not TokenPolicy.IGNORED_IF_BAD:
            raise
    if exchange.caller and access.token is not TokenPolicy.IGNORED_IF_BAD:
        try:
            access.check(exchange.caller)
        except (ForbiddenError, StepUpRequiredError):
            limits.count_refused_request(exchange, contract=contract)
            raise


def identify(exchange: RequestScope) -> None:
    """Note the caller of a path without contract, if it can be told who that is.

    Nothing but the quota hangs on it there, so that neither a bad token nor a database that is down matters.
    """
    try:
        exchange.caller = _resolve_caller(exchange, Access("any", TokenPolicy.IGNORED_IF_BAD))
    except (UnauthorizedError, TokenExpiredError, ProviderUnavailableError, ServiceUnavailableError):
        exchange.caller = None


def _resolve_caller(exchange: RequestScope, access: Access) -> Caller | None:
    header = request.headers.get("Authorization")
    if header is None:
        if access.token is TokenPolicy.REQUIRED:
            raise UnauthorizedError("This takes a bearer token: Authorization: Bearer <ACCESS_TOKEN>.")
        return None
    if header[: len(_BEARER_PREFIX)].lower() != _BEARER_PREFIX or not header[len(_BEARER_PREFIX) :].strip():
        raise UnauthorizedError("The Authorization header is not of the form: Bearer <ACCESS_TOKEN>.")
    claims = exchange.services.tokens.verify(header[len(_BEARER_PREFIX) :].strip())
    with exchange.services.database.reading() as session:
        caller = queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
    # Seen for the first time: a lost provisioning hook must lock nobody out.
    return caller or exchange.services.database.in_transaction(_provision_profile, claims, exchange)


def _provision_profile(session: Session, claims: TokenClaims, exchange: RequestScope) -> Caller | None:
    operations.create_profile(
        session, user_id=claims.user_id, email=claims.email, name=claims.name, now=exchange.now
    )
    return queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
