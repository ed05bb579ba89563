"""What a view is given of its request, and what a phased one returns."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import request
from sqlalchemy.orm import Session

from blueprints.http.request_scope import RequestScope, client_subnet
from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import UnauthorizedError
from marketplace.kernel.paging import PageRequest, TableRequest
from marketplace.services import Services

_MAX_USER_AGENT_LENGTH = 256


class Context:
    """What a view is given: who calls, when, and the session that the edge opened for it."""

    def __init__(
        self, request_scope: RequestScope, page: PageRequest | None, table: TableRequest | None = None
    ) -> None:
        self._request_scope = request_scope
        self._page = page
        self._table = table
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """Give the session of the request's one transaction; phased routes have none."""
        if self._session is None:
            raise RuntimeError("a phased route opens its own transactions")
        return self._session

    @property
    def services(self) -> Services:
        """Give what the process shares."""
        return self._request_scope.services

    @property
    def media_base_url(self) -> str:
        """The URL below which pictures are read."""
        return self.services.settings.media_base_url

    @property
    def now(self) -> datetime:
        """Give the time of the request."""
        return self._request_scope.now

    @property
    def user(self) -> Caller:
        """Give the caller of a route that requires a token.

        :raises UnauthorizedError: nobody is signed in
        """
        if self._request_scope.caller is None:
            raise UnauthorizedError
        return self._request_scope.caller

    @property
    def caller(self) -> Caller | None:
        """Give the caller, or none where nobody is signed in."""
        return self._request_scope.caller

    @property
    def act(self) -> Act:
        """The caller's act: who acts, in which role, from where and when.

        :raises UnauthorizedError: nobody is signed in
        """
        agent = request.headers.get("User-Agent")
        return Act(
            role=self.user.staff_role or self.user.role,
            now=self.now,
            user_id=self.user.id,
            ip_address=client_subnet(),
            user_agent=agent[:_MAX_USER_AGENT_LENGTH] if agent else None,
        )

    @property
    def page(self) -> PageRequest:
        """Give the page asked for, of a route whose query is paged."""
        if self._page is None:
            raise RuntimeError("the route's query is not paged")
        return self._page

    @property
    def table(self) -> TableRequest:
        """Give the page asked for, of a route whose query is that of a table."""
        if self._table is None:
            raise RuntimeError("the route's query is not a table's")
        return self._table

    def transaction(self) -> AbstractContextManager[Session]:
        """Open one of the transactions of a phased route."""
        return self.services.database.transaction()

    def bind_session(self, session: Session) -> None:
        """Lend the view a session; the edge calls it."""
        self._session = session


@dataclass(frozen=True)
class FinalPhase:
    """What a phased view returns: its last transaction's work, in which the edge completes the key."""

    apply: Callable[[Session], Any]
