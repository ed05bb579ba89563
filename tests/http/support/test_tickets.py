"""Tickets over HTTP: opening, severity, replies, attachments, ratings, and the work of staff."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import select, update

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from marketplace.media.documents import delete_due_documents
from marketplace.media.models import PrivateDocument
from marketplace.providers.storage import StoredObject
from marketplace.services import Services
from marketplace.support.models import SupportDuty
from marketplace.support.staff import close_resolved_tickets
from tests.support.audit_and_notifications import audit_of, notifications_of
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock
from tests.support.market import Bearer, Market
from tests.support.object_storage import InMemoryStorage
from tests.support.pdf_files import active_pdfs, plain_pdf
from tests.support.probes import assert_problem, changed, faults
from tests.support.purchases import NOW, later, make_shop, paid_order
from tests.support.sample_images import photo

TICKETS, INBOX = "/api/support", "/api/admin/support"
BUCKET = "marketplace-private"


@pytest.fixture(scope="module")
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture(scope="module")
def support_app(paying_services: Services, storage: InMemoryStorage) -> Flask:
    return checked_app(changed(paying_services, storage=storage), AREAS)


class Desk:
    """A person with tickets, and members of support staff."""

    def __init__(self, app: Flask, market: Market, bearer: Bearer, storage: InMemoryStorage) -> None:
        self.client, self.market, self.bearer, self.storage = app.test_client(), market, bearer, storage
        self.database: Database = market.database
        self.user_id, self.officer_id = market.person(name="Amara"), market.staff("support")
        self.user, self.officer = bearer(self.user_id), bearer(self.officer_id)

    def call(self, method: str, path: str, headers: Any, body: Any = None) -> Any:
        return self.client.open(path, method=method, json=body, headers=headers)

    def open(self, headers: Any = None, **fields: Any) -> Any:
        body = {"subject": "A question", "message": "How do I change my campus?", "category": "account"}
        return self.call("POST", TICKETS, headers or self.user, body | fields)

    def ticket(self, **fields: Any) -> str:
        answer = self.open(**fields)
        assert answer.status_code == 201, answer.json
        ticket_id: str = answer.json["data"]["id"]
        return ticket_id

    def reply(self, ticket_id: str, headers: Any, message: str | None = "Any news?", **fields: Any) -> Any:
        return self.call("POST", f"{TICKETS}/{ticket_id}/messages", headers, {"message": message} | fields)

    def messages(self, ticket_id: str, headers: Any) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.call("GET", f"{TICKETS}/{ticket_id}/messages", headers).json[
            "data"
        ]
        return listed

    def work(self, ticket_id: str, act: str, body: Any = None, headers: Any = None) -> Any:
        return self.call("POST", f"{INBOX}/{ticket_id}/{act}", headers or self.officer, body)

    def staff_view(self, ticket_id: str) -> dict[str, Any]:
        view: dict[str, Any] = self.call("GET", f"{INBOX}/{ticket_id}", self.officer).json["data"]
        return view

    def upload(self, content: bytes, content_type: str, **announced: Any) -> str:
        """Announce and upload a file, and return its attachmentUrl."""
        body = {
            "contentType": content_type,
            "byteCount": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        answer = self.call("POST", f"{TICKETS}/attachments", self.user, body | announced)
        assert answer.status_code == 201, answer.json
        key = answer.json["data"]["uploadUrl"].partition("?")[0].partition(f"{BUCKET}/")[2]
        self.storage.objects[key] = StoredObject(key, content, content_type)
        url: str = answer.json["data"]["attachmentUrl"]
        return url

    def notifications(self, user_id: UUID) -> list[str]:
        return [row["type"] for row in notifications_of(self.database, user_id)]


@pytest.fixture
def desk(
    support_app: Flask, market: Market, bearer: Bearer, storage: InMemoryStorage, clock: MovableClock
) -> Iterator[Desk]:
    made = Desk(support_app, market, bearer, storage)
    yield made
    with made.database.transaction() as session:
        session.execute(update(SupportDuty).values(on_duty_until=NOW - timedelta(days=1)))


class TestOpening:
    def test_creator_gets_a_numbered_ticket(self, desk: Desk) -> None:
        ticket = desk.open().json["data"]
        assert ticket["number"].startswith("S-")
        assert (ticket["status"], ticket["canReply"], ticket["messageCount"]) == ("open", True, 1)
        assert [message["body"] for message in desk.messages(ticket["id"], desk.user)] == [
            "How do I change my campus?"
        ]
        listed = desk.call("GET", TICKETS, desk.user).json["data"]
        assert [one["id"] for one in listed] == [ticket["id"]]

    @pytest.mark.parametrize(
        ("fields", "severity", "minutes"),
        [
            ({"message": "The vendor threatened me at the hub."}, "SEV-1", 15),
            ({"category": "payment"}, "SEV-2", 30),
            ({"category": "delivery"}, "SEV-3", 240),
        ],
        ids=["danger", "money", "delivery"],
    )
    def test_severity_follows_from_the_content(
        self, desk: Desk, fields: dict[str, str], severity: str, minutes: int
    ) -> None:
        view = desk.staff_view(desk.ticket(**fields))
        assert view["severity"] == severity
        assert view["responseDueAt"] == iso(NOW + timedelta(minutes=minutes))

    def test_lowest_severity_is_due_on_the_next_business_day(self, desk: Desk, clock: MovableClock) -> None:
        # 21 November 2026 is a Saturday. The business day ends at 17:00 in Nigeria.
        clock.now = NOW.replace(month=11, day=21)
        view = desk.staff_view(desk.ticket())
        assert (view["severity"], view["responseDueAt"]) == ("SEV-4", "2026-11-23T16:00:00Z")

    def test_order_in_escrow_raises_the_severity(self, desk: Desk) -> None:
        shop = desk.database.in_transaction(make_shop)
        order_id = desk.database.in_transaction(paid_order, shop)
        for party in (shop.buyer.id, shop.vendor.id):
            answer = desk.open(desk.bearer(party), orderId=str(order_id))
            assert desk.staff_view(answer.json["data"]["id"])["severity"] == "SEV-2"
        assert faults(desk.open(orderId=str(order_id))) == ["orderId"]
        assert faults(desk.open(orderId=str(uuid4()))) == ["orderId"]

    def test_invalid_fields_are_named(self, desk: Desk) -> None:
        answer = desk.open(subject="ab", message="", category="money", more=1)
        assert set(faults(answer)) == {"subject", "message", "category", "more"}

    def test_restricted_account_can_open_and_follow_tickets(self, desk: Desk) -> None:
        restricted = desk.bearer(desk.market.person(account_status="restricted"))
        ticket_id = desk.open(restricted).json["data"]["id"]
        assert desk.reply(ticket_id, restricted).status_code == 201


class TestReplies:
    def test_turn_passes_between_user_and_staff(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        assert desk.reply(ticket_id, desk.officer, "Which campus?").status_code == 201
        view = desk.staff_view(ticket_id)
        assert (view["status"], view["dueAt"]) == ("pending_user", None)
        assert view["firstRespondedAt"] is not None
        assert view["assigneeId"] == str(desk.officer_id)
        assert desk.notifications(desk.user_id) == ["support_reply"]

        assert desk.reply(ticket_id, desk.user, "South.").status_code == 201
        view = desk.staff_view(ticket_id)
        assert view["status"] == "pending_staff"
        assert view["dueAt"] is not None
        assert desk.notifications(desk.officer_id) == ["support_user_replied"]
        assert [message["author"] for message in desk.messages(ticket_id, desk.user)] == [
            "user",
            "staff",
            "user",
        ]

    def test_ticket_of_another_person_is_not_found(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        other = desk.bearer(desk.market.person())
        assert_problem(desk.reply(ticket_id, other), 404, "RESOURCE_NOT_FOUND")
        for path in (f"{TICKETS}/{ticket_id}", f"{TICKETS}/{ticket_id}/messages"):
            assert_problem(desk.call("GET", path, other), 404, "RESOURCE_NOT_FOUND")
        rating = {"rating": 5}
        assert_problem(
            desk.call("PUT", f"{TICKETS}/{ticket_id}/rate", other, rating), 404, "RESOURCE_NOT_FOUND"
        )

    def test_message_needs_a_content(self, desk: Desk) -> None:
        assert faults(desk.reply(desk.ticket(), desk.user, None)) == ["message"]

    def test_reply_reopens_a_resolved_ticket_within_seven_days(self, desk: Desk, clock: MovableClock) -> None:
        ticket_id = desk.ticket()
        assert desk.work(ticket_id, "resolve").json["data"]["status"] == "resolved"
        assert_problem(desk.reply(ticket_id, desk.officer), 409, "CONCURRENCY_CONFLICT")
        clock.now = later(days=6)
        assert desk.reply(ticket_id, desk.user).status_code == 201
        view = desk.staff_view(ticket_id)
        assert (view["status"], view["reopenings"], view["resolvedAt"]) == ("pending_staff", 1, None)

    def test_resolved_ticket_closes_after_seven_days(self, desk: Desk, clock: MovableClock) -> None:
        ticket_id = desk.ticket()
        desk.work(ticket_id, "resolve")
        clock.now = later(days=7)
        # The sweep has not run yet.
        problem = assert_problem(desk.reply(ticket_id, desk.user), 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "ticket-closed"
        assert not desk.call("GET", f"{TICKETS}/{ticket_id}", desk.user).json["data"]["canReply"]
        close_resolved_tickets(desk.database, now=clock.now)
        assert desk.staff_view(ticket_id)["status"] == "closed"

    def test_simultaneous_replies_get_consecutive_numbers(self, desk: Desk, support_app: Flask) -> None:
        ticket_id = desk.ticket()

        def send(number: int) -> int:
            body = {"message": f"Message {number}"}
            path = f"{TICKETS}/{ticket_id}/messages"
            return support_app.test_client().post(path, json=body, headers=desk.user).status_code

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(send, range(4))) == [201] * 4
        assert [message["number"] for message in desk.messages(ticket_id, desk.user)] == [1, 2, 3, 4, 5]

    def test_messages_are_paged_in_order(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        for number in range(4):
            desk.reply(ticket_id, desk.user, f"Message {number}")
        path, numbers, cursor = f"{TICKETS}/{ticket_id}/messages?limit=2", [], ""
        while True:
            page = desk.call("GET", path + cursor, desk.user).json
            numbers += [message["number"] for message in page["data"]]
            if not page["meta"]["has_more"]:
                break
            cursor = f"&cursor={page['meta']['next_cursor']}"
        assert numbers == [1, 2, 3, 4, 5]


class TestAttachments:
    @pytest.mark.parametrize(
        ("content", "content_type"),
        [(photo(400, 300), "image/jpeg"), (plain_pdf(), "application/pdf")],
        ids=["picture", "pdf"],
    )
    def test_checked_file_is_shown_with_the_message(
        self, desk: Desk, content: bytes, content_type: str
    ) -> None:
        ticket_id = desk.ticket()
        url = desk.upload(content, content_type)
        sent = desk.reply(ticket_id, desk.user, None, attachmentUrl=url, attachmentName="parcel")
        assert sent.status_code == 201, sent.json
        [attachment] = desk.messages(ticket_id, desk.officer)[-1]["attachments"]
        assert (attachment["name"], attachment["contentType"], attachment["byteCount"]) == (
            "parcel",
            content_type,
            len(content),
        )
        assert attachment["url"].startswith("https://storage.test/")
        # A used file is neither sent again nor swept.
        assert faults(desk.reply(ticket_id, desk.user, None, attachmentUrl=url)) == ["attachmentUrl"]
        delete_due_documents(desk.database, desk.storage, bucket=BUCKET, now=later(days=2))
        assert len(desk.messages(ticket_id, desk.user)[-1]["attachments"]) == 1

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda content: content[:-1] + b"x", "differs from the announced"),
            (lambda content: content + b"x", "was not uploaded|differs"),
            (lambda _content: None, "was not uploaded"),
        ],
        ids=["other content", "longer", "missing"],
    )
    def test_file_different_from_the_announcement_is_refused(
        self, desk: Desk, change: Callable[[bytes], bytes | None], reason: str
    ) -> None:
        content = plain_pdf()
        url = desk.upload(content, "application/pdf")
        [key] = [key for key in desk.storage.objects if key in url]
        changed_content = change(content)
        if changed_content is None:
            del desk.storage.objects[key]
        else:
            desk.storage.objects[key] = StoredObject(key, changed_content, "application/pdf")
        answer = desk.reply(desk.ticket(), desk.user, None, attachmentUrl=url)
        [fault] = assert_problem(answer, 422, "VALIDATION_FAILED")["invalid_params"]
        assert fault["name"] == "attachmentUrl"
        assert any(part in fault["reason"] for part in reason.split("|"))

    @pytest.mark.parametrize(
        ("content", "content_type"),
        [
            (next(iter(active_pdfs().values())), "application/pdf"),
            (photo(80, 60), "application/pdf"),
            (b"MZ\x90 a program", "image/png"),
        ],
        ids=["active PDF", "mislabelled", "program"],
    )
    def test_hostile_file_is_refused(self, desk: Desk, content: bytes, content_type: str) -> None:
        url = desk.upload(content, content_type)
        answer = desk.reply(desk.ticket(), desk.user, None, attachmentUrl=url)
        assert faults(answer) == ["attachmentUrl"]

    def test_upload_of_another_person_is_refused(self, desk: Desk) -> None:
        url = desk.upload(plain_pdf(), "application/pdf")
        other = desk.bearer(desk.market.person())
        ticket_id = desk.open(other).json["data"]["id"]
        assert faults(desk.reply(ticket_id, other, None, attachmentUrl=url)) == ["attachmentUrl"]
        assert faults(desk.reply(ticket_id, other, None, attachmentUrl="https://x.test/a.pdf")) == [
            "attachmentUrl"
        ]

    def test_unused_upload_is_swept_after_a_day(self, desk: Desk) -> None:
        url = desk.upload(plain_pdf(), "application/pdf")
        delete_due_documents(desk.database, desk.storage, bucket=BUCKET, now=later(hours=25))
        assert [key for key in desk.storage.objects if key in url] == []
        with desk.database.reading() as session:
            keys = session.scalars(select(PrivateDocument.key)).all()
        assert [key for key in keys if key in url] == []

    def test_announced_size_and_type_are_limited(self, desk: Desk) -> None:
        body = {"contentType": "text/html", "byteCount": 11 * 1024 * 1024, "sha256": "ab"}
        answer = desk.call("POST", f"{TICKETS}/attachments", desk.user, body)
        assert set(faults(answer)) == {"contentType", "byteCount", "sha256"}


class TestRating:
    def test_creator_rates_a_resolved_ticket(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        path = f"{TICKETS}/{ticket_id}/rate"
        problem = assert_problem(
            desk.call("PUT", path, desk.user, {"rating": 5}), 409, "CONCURRENCY_CONFLICT"
        )
        assert problem["reason"] == "ticket-not-resolved"
        desk.work(ticket_id, "resolve")
        rated = desk.call("PUT", path, desk.user, {"rating": 4, "comment": "Quick."}).json["data"]
        assert (rated["rating"], rated["ratingComment"]) == (4, "Quick.")
        assert faults(desk.call("PUT", path, desk.user, {"rating": 6})) == ["rating"]


class TestStaff:
    def test_inbox_lists_the_most_overdue_ticket_first(self, desk: Desk) -> None:
        first = desk.ticket(category="delivery")
        second = desk.ticket(category="payment")
        path = f"{INBOX}?creatorId={desk.user_id}"
        listed = desk.call("GET", path, desk.officer).json["data"]
        assert [ticket["id"] for ticket in listed] == [second, first]
        assert listed[0]["creatorName"] == "Amara"
        page = desk.call("GET", f"{path}&limit=1", desk.officer).json["meta"]
        rest = desk.call("GET", f"{path}&limit=1&cursor={page['next_cursor']}", desk.officer).json["data"]
        assert [ticket["id"] for ticket in rest] == [first]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("assignee=none", True),
            ("assignee=me", False),
            ("severity=SEV-2", True),
            ("severity=SEV-1", False),
            ("category=payment", True),
            ("tag=hub", True),
            ("tag=bus", False),
            ("status=pending_user", False),
            ("status=open", True),
        ],
    )
    def test_inbox_is_filtered(self, desk: Desk, query: str, expected: bool) -> None:
        ticket_id = desk.ticket(category="payment")
        desk.call("PUT", f"{INBOX}/{ticket_id}", desk.officer, {"tags": ["hub", "late"]})
        listed = desk.call("GET", f"{INBOX}?creatorId={desk.user_id}&{query}", desk.officer).json["data"]
        assert [ticket["id"] for ticket in listed] == ([ticket_id] if expected else [])

    def test_new_tickets_go_to_staff_on_duty_in_turn(self, desk: Desk, clock: MovableClock) -> None:
        others = [desk.market.staff("support") for _ in range(2)]
        for officer_id in others:
            until = iso(NOW + timedelta(hours=8))
            answer = desk.call("PUT", f"{INBOX}/duty", desk.bearer(officer_id), {"until": until})
            assert answer.json["data"]["onDutyUntil"] == until
        assigned = []
        for seconds in range(4):
            clock.now = later(seconds=seconds)
            assigned.append(desk.staff_view(desk.ticket())["assigneeId"])
        assert assigned[:2] == assigned[2:]
        assert set(assigned) == {str(officer_id) for officer_id in others}
        assert desk.notifications(others[0]) == ["support_assigned"] * 2

    def test_duty_ends_and_is_limited(self, desk: Desk) -> None:
        too_long = {"until": iso(NOW + timedelta(hours=25))}
        assert faults(desk.call("PUT", f"{INBOX}/duty", desk.officer, too_long)) == ["until"]
        desk.call("PUT", f"{INBOX}/duty", desk.officer, {"until": iso(NOW + timedelta(hours=1))})
        desk.call("PUT", f"{INBOX}/duty", desk.officer, {"until": None})
        assert desk.call("GET", f"{INBOX}/duty", desk.officer).json["data"] == {"onDutyUntil": None}
        assert desk.staff_view(desk.ticket())["assigneeId"] is None

    def test_urgent_ticket_reaches_all_support_staff_if_nobody_is_on_duty(self, desk: Desk) -> None:
        desk.ticket(message="The vendor attacked me.")
        assert desk.notifications(desk.officer_id) == ["support_assigned"]

    def test_assignment_by_hand(self, desk: Desk) -> None:
        ticket_id, other = desk.ticket(), desk.market.staff("support")
        view = desk.work(ticket_id, "assign", {"assigneeId": str(other)}).json["data"]
        assert (view["assigneeId"], view["status"]) == (str(other), "pending_staff")
        assert desk.notifications(other) == ["support_assigned"]
        assert desk.work(ticket_id, "assign", {"assigneeId": None}).json["data"]["assigneeId"] is None
        wrong = desk.work(ticket_id, "assign", {"assigneeId": str(desk.market.staff("finance"))})
        assert faults(wrong) == ["assigneeId"]
        assert [entry["action"] for entry in audit_of(desk.database, ticket_id)] == ["ticket.assign"] * 2

    def test_note_is_internal(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        assert desk.work(ticket_id, "note", {"message": "Check the hub."}).status_code == 201
        assert [message["internal"] for message in desk.messages(ticket_id, desk.officer)] == [False, True]
        assert [message["body"] for message in desk.messages(ticket_id, desk.user)] == [
            "How do I change my campus?"
        ]
        assert desk.notifications(desk.user_id) == []

    def test_new_severity_moves_the_target_times(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        view = desk.staff_view(ticket_id)
        body = {"severity": "SEV-1", "revision": view["revision"]}
        changed_view = desk.call("PUT", f"{INBOX}/{ticket_id}", desk.officer, body).json["data"]
        assert changed_view["dueAt"] == iso(NOW + timedelta(minutes=15))
        stale = desk.call("PUT", f"{INBOX}/{ticket_id}", desk.officer, body)
        assert_problem(stale, 409, "CONCURRENCY_CONFLICT")

    def test_duplicate_is_merged_into_another_ticket(self, desk: Desk) -> None:
        first, duplicate = desk.ticket(), desk.ticket()
        kept = desk.work(duplicate, "merge", {"intoId": first}).json["data"]
        assert kept["id"] == first
        assert desk.messages(first, desk.user)[-1]["author"] == "system"
        view = desk.staff_view(duplicate)
        assert (view["status"], view["mergedIntoId"]) == ("closed", first)
        problem = assert_problem(desk.reply(duplicate, desk.user), 409, "CONCURRENCY_CONFLICT")
        assert kept["number"] in problem["detail"]

    def test_tickets_of_different_people_are_not_merged(self, desk: Desk) -> None:
        foreign = desk.open(desk.bearer(desk.market.person())).json["data"]["id"]
        for into in (foreign, desk.ticket() + "0"):
            answer = desk.work(desk.ticket(), "merge", {"intoId": into})
            assert faults(answer) == ["intoId"]
        own = desk.ticket()
        assert faults(desk.work(own, "merge", {"intoId": own})) == ["intoId"]

    def test_closed_ticket_notifies_the_creator_once(self, desk: Desk) -> None:
        ticket_id = desk.ticket()
        assert desk.work(ticket_id, "close").json["data"]["status"] == "closed"
        assert_problem(desk.work(ticket_id, "close"), 409, "CONCURRENCY_CONFLICT")
        assert desk.notifications(desk.user_id) == ["support_resolved"]

    def test_officer_does_not_handle_an_own_ticket(self, desk: Desk) -> None:
        ticket_id = desk.open(desk.officer).json["data"]["id"]
        for act, body in (("resolve", None), ("note", {"message": "Mine."}), ("close", None)):
            assert_problem(desk.work(ticket_id, act, body), 403, "AUTH_FORBIDDEN")
        # The reply counts as the creator's.
        desk.reply(ticket_id, desk.officer)
        assert [message["author"] for message in desk.messages(ticket_id, desk.officer)] == ["user", "user"]

    @pytest.mark.parametrize("role", ["finance", "moderator", "compliance"])
    def test_other_staff_have_no_inbox(self, desk: Desk, role: str) -> None:
        headers = desk.bearer(desk.market.staff(role))
        assert_problem(desk.call("GET", INBOX, headers), 403, "AUTH_FORBIDDEN")
        assert_problem(desk.work(desk.ticket(), "resolve", None, headers), 403, "AUTH_FORBIDDEN")


def iso(moment: Any) -> str:
    """Return a time as the API writes times."""
    return str(moment.isoformat().replace("+00:00", "Z"))
