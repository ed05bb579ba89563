"""Who calls: the bearer token is checked, the person behind it looked up, the contract's access held."""

from flask import request
from sqlalchemy.orm import Session

from blueprints.http import limits
from blueprints.http.contract import Access, Contract, Token
from blueprints.http.request_scope import Exchange
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

_SCHEME = "bearer "


def authenticate(exchange: Exchange, contract: Contract) -> None:
    """Find out who calls and whether they may, and note the caller on the exchange.

    :param exchange: the request
    :param contract: its route's
    :raises UnauthorizedError: no valid token where one is needed; counted against the address
    :raises TokenExpiredError: likewise
    :raises ForbiddenError: status, role or permission don't allow it
    :raises StepUpRequiredError: it takes two factors
    """
    access = contract.access
    if access.token is Token.NONE:
        return
    try:
        exchange.caller = _caller(exchange, access)
    except (UnauthorizedError, TokenExpiredError):
        if access.token is not Token.IGNORED_IF_BAD:
            limits.admit_unauthenticated(exchange)
            raise
    except ProviderUnavailableError:
        if access.token is not Token.IGNORED_IF_BAD:
            raise
    if exchange.caller and access.token is not Token.IGNORED_IF_BAD:
        try:
            access.check(exchange.caller)
        except (ForbiddenError, StepUpRequiredError):
            limits.note(exchange, contract=contract)
            raise


def identify(exchange: Exchange) -> None:
    """Note the caller of a path without contract, if it can be told who that is.

    Nothing but the quota hangs on it there, so that neither a bad token nor a database that is down matters.
    """
    try:
        exchange.caller = _caller(exchange, Access("any", Token.IGNORED_IF_BAD))
    except (UnauthorizedError, TokenExpiredError, ProviderUnavailableError, ServiceUnavailableError):
        exchange.caller = None


def _caller(exchange: Exchange, access: Access) -> Caller | None:
    header = request.headers.get("Authorization")
    if header is None:
        if access.token is Token.REQUIRED:
            raise UnauthorizedError("This takes a bearer token: Authorization: Bearer <ACCESS_TOKEN>.")
        return None
    if header[: len(_SCHEME)].lower() != _SCHEME or not header[len(_SCHEME) :].strip():
        raise UnauthorizedError("The Authorization header is not of the form: Bearer <ACCESS_TOKEN>.")
    claims = exchange.services.tokens.verify(header[len(_SCHEME) :].strip())
    with exchange.services.database.reading() as session:
        caller = queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
    # Seen for the first time: a lost provisioning hook must lock nobody out.
    return caller or exchange.services.database.in_transaction(_first_sight, claims, exchange)


def _first_sight(session: Session, claims: TokenClaims, exchange: Exchange) -> Caller | None:
    operations.create_profile(
        session, user_id=claims.user_id, email=claims.email, name=claims.name, now=exchange.now
    )
    return queries.find_caller(session, user_id=claims.user_id, aal=claims.aal)
