"""Walk over all routes: people cannot use what belongs to others, and cannot set what the service decides."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from marshmallow import Schema, fields

from blueprints.areas import contracts
from blueprints.http.contract import Contract, TokenPolicy
from blueprints.http.fields import snake_case
from marketplace.assistant.threads import NewThreadMessage, start_turn
from marketplace.chat.send import MessageContent, send_to_store
from marketplace.disputes.cases import Complaint, open_dispute
from marketplace.identity.operations import add_address
from marketplace.infra.db import Database
from marketplace.notifications.devices import register_device
from marketplace.notifications.operations import notify
from marketplace.privacy.exports import request_export
from marketplace.reviews.submit import submit_review
from marketplace.services import Services
from marketplace.support.tickets import open_ticket
from tests.support.finance import delivered_order
from tests.support.market import Bearer, Market
from tests.support.payouts import make_account
from tests.support.purchases import NOW, Shop, make_product, make_shop, paid_order, shipped_order, with_buyer

PROTECTED = [
    contract
    for contract in contracts()
    if "<" in contract.path and contract.access.token is TokenPolicy.REQUIRED and contract.upload is None
]
# Any staff may read orders, and read and answer tickets.
OPEN_TO_STAFF = {
    "orders.get_order",
    "orders.list_order_items",
    "orders.list_order_events",
    "order-money.get_money_trail",
    "support.get_ticket",
    "support.list_ticket_messages",
    "support.reply_to_ticket",
}
# Fields that the service or staff decide. A schema with such a field must be listed with the reason.
DECIDED_BY_SERVICE = {
    *("role", "staff_role", "account_status", "badges", "verified", "phone_verified", "balance_minor"),
    *(
        "rating_sum",
        "rating_count",
        "owner_id",
        "user_id",
        "vendor_user_id",
        "commission_bps",
        "escrow_status",
    ),
}
ALLOWED_FIELDS = {
    "people.grant_staff_role": {"staff_role"},
    # Officers name another person or a rate.
    "rep-shifts.create_rep_shift": {"user_id"},
    "platform.create_proposal": {"user_id", "commission_bps"},
    "erasures.make_erasure_plan": {"user_id"},
    # The author of a message is the shopper or the assistant.
    "assistant.write_session_title": {"role"},
    "assistant.stream_answer": {"role"},
    # The identity provider names the new person.
    "server-functions.create_user": {"user_id"},
    "server-functions.deliver_notification": {"id", "user_id"},
}
FORBIDDEN = {
    "role": "staff",
    "accountStatus": "active",
    "balanceMinor": 10**9,
    "verified": True,
    "ownerId": str(uuid4()),
    "ratingSum": 5,
}


class Walk:
    """A shop with resources of a buyer and a vendor, and other people who call the routes."""

    def __init__(self, client: FlaskClient, database: Database, market: Market, bearer: Bearer) -> None:
        self.client, self.market, self.bearer = client, market, bearer
        self.shop: Shop = database.in_transaction(make_shop)
        self.ids = database.in_transaction(self._make_resources)
        self.document = client.get("/openapi.json").get_json()
        other_store = market.store()
        self.others = {
            "buyer": bearer(database.in_transaction(with_buyer, self.shop).buyer.id, aal="aal2"),
            "vendor": bearer(other_store.user_id, aal="aal2"),
            "staff": bearer(market.staff("compliance"), aal="aal2"),
        }

    def _make_resources(self, session: Any) -> dict[str, str]:
        order_id = paid_order(session, self.shop)
        reviewed = delivered_order(session, self.shop)
        review_id = submit_review(
            session,
            author_id=self.shop.buyer.id,
            vendor_id=self.shop.store_id,
            order_id=reviewed,
            rating=4,
            text="The lamp came the same day and works well.",
            now=NOW,
        )
        address = add_address(session, user_id=self.shop.buyer.id, fields={"hostel": "Moremi Hall"}, now=NOW)
        device, _ = register_device(
            session, user_id=self.shop.buyer.id, name=None, subscription=None, token=uuid4().hex, now=NOW
        )
        notification_id = notify(
            session,
            user_id=self.shop.buyer.id,
            type="order_paid",
            title="Payment received",
            body="The vendor prepares your order.",
            link=f"/orders/{order_id}",
            cause=f"walk:{order_id}",
            now=NOW,
        )
        conversation = send_to_store(
            session,
            sender_id=self.shop.buyer.id,
            vendor_id=self.shop.store_id,
            content=MessageContent("Good morning."),
            now=NOW,
        ).conversation
        ticket = open_ticket(
            session,
            creator_id=self.shop.buyer.id,
            subject="My order has not arrived",
            message="The hub does not have it.",
            category="delivery",
            order_id=order_id,
            now=NOW,
        )
        make_account(session, self.shop.vendor.id)
        dispute = open_dispute(
            session,
            order_id=shipped_order(session, self.shop),
            caller=self.shop.buyer,
            complaint=Complaint("not_received", "It never came to the hub.", "refund"),
            now=NOW,
        )
        thread_id = start_turn(
            session,
            user_id=self.shop.buyer.id,
            thread_id=None,
            messages=[NewThreadMessage("user", "Where are the hubs?")],
            now=NOW,
        ).thread_id
        return {
            "dispute_id": str(dispute.id),
            "offer_id": str(dispute.id),
            "evidence_id": str(dispute.id),
            "ticket_id": str(ticket.id),
            "conversation_id": str(conversation.id),
            "thread_id": str(thread_id),
            "export_id": str(request_export(session, user_id=self.shop.buyer.id, now=NOW).id),
            "order_id": str(order_id),
            "review_id": str(review_id),
            "address_id": str(address.id),
            "device_id": str(device.id),
            "notification_id": str(notification_id),
            "product_id": str(make_product(session, self.shop)),
            "vendor_id": str(self.shop.store_id),
            "user_id": str(self.shop.buyer.id),
            "campus_id": str(self.shop.campus_id),
            "category_id": str(self.shop.category_id),
        }

    def path(self, contract: Contract) -> str:
        """Return the path with the resources of others. Other ids are unknown, because staff manage these rows."""

        def replace(match: re.Match[str]) -> str:
            name = match[1]
            assert name in self.ids or name in STAFF_PARAMETERS, f"map the parameter {name}"
            return self.ids.get(name) or STAFF_PARAMETERS[name]

        return re.sub(r"<(?:\w+:)?(\w+)>", replace, contract.path)

    def example(self, contract: Contract) -> Any:
        """Return the documented body, which passes the checks that come before the rights."""
        sought = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", contract.path)
        [path] = [path for path in self.document["paths"] if snake_case(path) == sought]
        operation = self.document["paths"][path][contract.method.lower()]
        content = operation.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("example")

    def call(self, contract: Contract, headers: dict[str, str], body: Any) -> Any:
        return self.client.open(
            self.path(contract),
            method=contract.method,
            json=body,
            headers=headers | {"Idempotency-Key": str(uuid4())},
        )


# Rows that only staff manage. Callers without the permission get 403 for known and unknown ids.
STAFF_PARAMETERS = {
    name: str(UUID(int=7))
    for name in (
        *(
            "alert_id",
            "appeal_id",
            "application_id",
            "banner_id",
            "batch_id",
            "blocked_message_id",
            "case_id",
            "charge_id",
            "incident_id",
            "reply_id",
            "view_id",
            "entry_id",
            "execution_id",
        ),
        *(
            "exception_id",
            "holiday_id",
            "hub_id",
            "payout_id",
            "proposal_id",
            "refund_id",
            "run_id",
            "sale_id",
        ),
        *("shift_id", "synonyms_id", "term_id", "vibe_id", "webhook_id"),
    )
} | {"domain": "example.edu", "name": "sweep-images", "identifier": "PAYMENT_STALLED", "key": "features"}


@pytest.fixture(scope="module")
def walk(app: Flask, services: Services, bearer: Bearer) -> Walk:
    database = services.database
    return Walk(app.test_client(), database, Market(database), bearer)


@pytest.mark.parametrize("contract", PROTECTED, ids=lambda contract: contract.name)
def test_resources_of_others_are_not_found_or_forbidden(walk: Walk, contract: Contract) -> None:
    body = walk.example(contract)
    assert walk.call(contract, {}, body).status_code == 401
    statuses = {
        persona: walk.call(contract, headers, body).status_code for persona, headers in walk.others.items()
    }
    if contract.name in OPEN_TO_STAFF:
        assert statuses.pop("staff") == contract.status
    assert set(statuses.values()) <= {403, 404}, statuses


def body_fields(schema: Schema, path: str = "") -> Iterator[str]:
    """Yield the names of all fields of a body."""
    for name, field in schema.fields.items():
        yield name
        inner = field.inner if isinstance(field, fields.List) else field
        if isinstance(inner, fields.Nested):
            yield from body_fields(inner.schema, f"{path}{name}.")


WITH_BODY = [contract for contract in contracts() if isinstance(contract.body, Schema)]


@pytest.mark.parametrize("contract", WITH_BODY, ids=lambda contract: contract.name)
def test_bodies_have_no_field_that_the_service_decides(contract: Contract) -> None:
    assert contract.body is not None
    found = set(body_fields(contract.body)) & DECIDED_BY_SERVICE
    assert found <= ALLOWED_FIELDS.get(contract.name, set())


@pytest.mark.parametrize(
    "name", ["users.update_me", "stores.update_store_profile", "reviews.update_review", "orders.place_order"]
)
def test_fields_that_the_service_decides_are_refused(walk: Walk, name: str) -> None:
    matching = [
        contract for contract in WITH_BODY if contract.name.rpartition(".")[2] == name.rpartition(".")[2]
    ]
    [contract] = matching
    headers = walk.bearer(
        walk.shop.vendor.id if "vendor" in (contract.access.roles or ()) else walk.shop.buyer.id
    )
    answer = walk.call(contract, headers, (walk.example(contract) or {}) | FORBIDDEN)
    assert answer.status_code == 422
    assert set(FORBIDDEN) <= {fault["name"] for fault in answer.json["invalid_params"]}
