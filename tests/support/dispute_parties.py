"""Buyer, vendor and officers of a dispute, as clients over HTTP."""

import io
from typing import Any
from uuid import UUID, uuid4

from werkzeug.datastructures import FileStorage
from werkzeug.test import encode_multipart

from tests.support.audit_and_notifications import notifications_of
from tests.support.purchases import (
    assert_ledger_is_consistent,
    balances_of_order,
    make_person,
    row_of,
    status_of,
)
from tests.support.shop_client import ShopClient

DISPUTES = "/api/disputes"
DESCRIPTION = "The vendor marked it as shipped. It never came."
RATIONALE = "The hub has no record of the parcel, and the vendor has no receipt."


class Parties:
    """Buyer, vendor and officers of a dispute."""

    def __init__(self, shop_client: ShopClient) -> None:
        self.http, self.database, self.shop = shop_client, shop_client.database, shop_client.shop
        self.buyer, self.vendor = shop_client.buyer, shop_client.vendor
        self.officer = self.make_officer()

    def make_officer(self, aal: str = "aal2") -> dict[str, str]:
        officer = self.database.in_transaction(make_officer_of_support)
        return self.http.bearer(officer, aal=aal)

    def open(self, order_id: UUID, headers: Any = None, **fields: Any) -> Any:
        body = {
            "orderId": str(order_id),
            "reason": "not_received",
            "description": DESCRIPTION,
            "desiredOutcome": "refund",
        } | fields
        return self.http.post(DISPUTES, headers or self.buyer, body)

    def opened(self, order_id: UUID, **fields: Any) -> str:
        answer = self.open(order_id, **fields)
        assert answer.status_code == 201, answer.json
        dispute_id: str = answer.json["data"]["id"]
        return dispute_id

    def act(self, dispute_id: str, act: str, headers: Any, body: Any = None) -> Any:
        return self.http.post(f"{DISPUTES}/{dispute_id}/{act}", headers, body)

    def rule(
        self, dispute_id: str, outcome: str, headers: Any = None, dry_run: bool = False, **fields: Any
    ) -> Any:
        query = "?dryRun=true" if dry_run else ""
        body = {"outcome": outcome, "rationale": RATIONALE} | fields
        return self.act(dispute_id, f"resolve{query}", headers or self.officer, body)

    def send(
        self,
        dispute_id: str,
        content: bytes,
        headers: Any = None,
        *,
        kind: str = "photo",
        **fields: str,
    ) -> Any:
        """Send a file as evidence."""
        form = {"file": FileStorage(io.BytesIO(content), filename="file.bin"), "kind": kind} | fields
        boundary, body = encode_multipart(form, boundary=f"b{uuid4().hex}")
        return self.http.client.post(
            f"{DISPUTES}/{dispute_id}/evidence",
            data=body,
            content_type=f"multipart/form-data; boundary={boundary}",
            headers=headers or self.buyer,
        )

    def state(self, order_id: UUID) -> tuple[str, str]:
        with self.database.reading() as session:
            escrow = row_of(session, "escrows", order_id=order_id)
            return status_of(session, order_id), escrow["status"]

    def balances(self, order_id: UUID) -> dict[str, int]:
        with self.database.transaction() as session:
            assert_ledger_is_consistent(session)
            return balances_of_order(session, order_id)

    def notified(self, user_id: UUID) -> list[str]:
        return [
            row["title"]
            for row in notifications_of(self.database, user_id)
            if row["type"] == "order_disputed"
        ]


def make_officer_of_support(session: Any) -> UUID:
    return make_person(session, role="staff", staff_role="support").id
