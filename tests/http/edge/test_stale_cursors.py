"""Correctly signed cursors with positions of another sort order: refused, never an internal error."""

import re
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Response
from flask.testing import FlaskClient

from blueprints.areas import AREAS, contracts
from blueprints.http.application import build_app
from blueprints.http.context import current_context
from blueprints.http.contract import Contract
from blueprints.http.fields import CursorQuery, OffsetOrCursorQuery
from marketplace.assistant.threads import NewThreadMessage, flag_thread, start_turn
from marketplace.chat.send import MessageContent, send_to_store
from marketplace.identity.permissions import MANAGE_COMPLIANCE
from marketplace.kernel.cursor import encode_cursor
from marketplace.services import Services
from marketplace.support.tickets import open_ticket
from tests.support.market import Bearer, Market
from tests.support.payouts import make_payees, staged_batch
from tests.support.probes import faults
from tests.support.purchases import make_person

PAGED = [
    contract for contract in contracts() if isinstance(contract.query, CursorQuery | OffsetOrCursorQuery)
]
# No listing sorts by positions of these shapes.
STALE: list[list[Any]] = [[], [None, None], [{}], [[], []], [True], ["a", "b", "c", "d", "e", "f"], [1, 2]]
# An unusual limit, so that no response is in the cache.
LIMIT = 37


class Service:
    """The application, with access to the cursor signing name of the last requested listing."""

    def __init__(self, services: Services, market: Market, bearer: Bearer) -> None:
        app = build_app(services, AREAS)
        app.after_request(self._record_listing)
        self._key, self._client, self._listing = services.settings.cursor_key.encode(), app.test_client(), ""
        self._store = market.store()
        self._vendor, self._officer = bearer(self._store.user_id), bearer(market.staff("admin"))
        self._compliance = bearer(market.staff("compliance"))
        self._conversation_id = self._open_conversation(services)
        self._ticket_id = self._open_ticket(services)
        self._thread_id = self._flag_thread(services)
        self._product_id, self._campus_id = market.product(self._store), market.campus_id
        with services.database.transaction() as session:
            self._batch_id = staged_batch(session, make_payees(session, 1))

    def _open_conversation(self, services: Services) -> UUID:
        with services.database.transaction() as session:
            party = send_to_store(
                session,
                sender_id=make_person(session).id,
                vendor_id=self._store.id,
                content=MessageContent("Is the lamp still available?"),
                now=services.clock(),
            )
            return party.conversation.id

    def _open_ticket(self, services: Services) -> UUID:
        with services.database.transaction() as session:
            ticket = open_ticket(
                session,
                creator_id=self._store.user_id,
                subject="A question",
                message="How do I change my campus?",
                category="account",
                order_id=None,
                now=services.clock(),
            )
            return ticket.id

    def _flag_thread(self, services: Services) -> UUID:
        owner, now = self._store.user_id, services.clock()
        with services.database.transaction() as session:
            thread_id = start_turn(
                session, user_id=owner, thread_id=None, messages=[NewThreadMessage("user", "Hello")], now=now
            ).thread_id
            flag_thread(session, thread_id=thread_id, user_id=owner, reason="wrong", details=None, now=now)
            return thread_id

    def _record_listing(self, answer: Response) -> Response:
        self._listing = current_context().cursor_listing_key
        return answer

    def client_of(self, contract: Contract) -> tuple[FlaskClient, str, dict[str, str], dict[str, Any]]:
        """Return client, path, headers and query of a route."""
        path = re.sub(r"<uuid:vendor_id>", str(self._store.id), contract.path)
        path = re.sub(r"<uuid:batch_id>", str(self._batch_id), path)
        path = re.sub(r"<uuid:product_id>", str(self._product_id), path)
        path = re.sub(r"<uuid:ticket_id>", str(self._ticket_id), path)
        path = re.sub(r"<uuid:thread_id>", str(self._thread_id), path)
        path = re.sub(r"<uuid:conversation_id>", str(self._conversation_id), path)
        path = re.sub(r"<string:campus_id>", str(self._campus_id), path)
        roles = contract.access.roles
        staff = contract.access.permissions or (roles and "staff" in roles)
        query: dict[str, Any] = {"q": uuid4().hex} if path.endswith("/search") else {}
        officer = self._compliance if MANAGE_COMPLIANCE in contract.access.permissions else self._officer
        return self._client, path, officer if staff else self._vendor, query

    def cursor(self, position: list[Any]) -> str:
        """Sign a cursor for the last requested listing."""
        return encode_cursor(self._key, listing=self._listing, position=position)


@pytest.fixture(scope="module")
def service(services: Services, bearer: Bearer) -> Service:
    return Service(services, Market(services.database), bearer)


@pytest.mark.parametrize("contract", PAGED, ids=lambda contract: contract.path)
def test_signed_cursor_with_wrong_position_shape_is_refused(service: Service, contract: Contract) -> None:
    client, path, headers, query = service.client_of(contract)
    first = client.get(path, headers=headers, query_string=query | {"limit": LIMIT})
    assert first.status_code == 200, first.json

    for position in STALE:
        stale = query | {"limit": LIMIT, "cursor": service.cursor(position)}
        assert faults(client.get(path, headers=headers, query_string=stale)) == ["cursor"], position


def test_main_listings_are_among_tested_routes(service: Service) -> None:
    assert {"/api/transactions", "/api/orders", "/api/products/search", "/api/campus-orders"} <= {
        contract.path for contract in PAGED
    }
