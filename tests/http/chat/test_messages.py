"""Messages over HTTP: the first message, history in both directions, read receipts, cards, pictures and blocks."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from blueprints.chat.schemas import ConversationView, MessageView
from marketplace.chat.send import MAX_NEW_CONVERSATIONS
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.media.models import Image
from marketplace.vendors.models import VendorProfile
from tests.support.audit_and_notifications import notifications_of
from tests.support.probes import assert_problem, faults
from tests.support.purchases import make_product, make_shop, make_store, row_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key

SEND = "/api/chat/send"
PATH = "/api/conversations"


class Chat:
    """A buyer and a store that write to each other."""

    def __init__(self, shop_client: ShopClient) -> None:
        self.shop_client = shop_client
        self.buyer, self.vendor = shop_client.buyer, shop_client.vendor
        self.conversation_id = self.from_buyer("Is the lamp still available?")["conversationId"]

    def from_buyer(self, body: str, **fields: Any) -> Any:
        return self.sent(self.buyer, body, vendorId=str(self.shop_client.shop.store_id), **fields)

    def from_vendor(self, body: str, **fields: Any) -> Any:
        return self.sent(self.vendor, body, conversationId=self.conversation_id, **fields)

    def sent(self, headers: dict[str, str], body: str, **fields: Any) -> Any:
        answer = self.shop_client.post(SEND, headers, {"body": body} | fields)
        assert answer.status_code == 201, answer.json
        assert not MessageView().validate(answer.json["data"])
        return answer.json["data"]

    def view(self, headers: dict[str, str]) -> Any:
        answer = self.shop_client.get(f"{PATH}/{self.conversation_id}", headers)
        assert answer.status_code == 200, answer.json
        assert not ConversationView().validate(answer.json["data"])
        return answer.json["data"]

    def messages(self, headers: dict[str, str], **query: Any) -> Any:
        answer = self.shop_client.get(f"{PATH}/{self.conversation_id}/messages", headers, **query)
        assert answer.status_code == 200, answer.json
        assert not MessageView(many=True).validate(answer.json["data"])
        return answer.json

    def do(self, headers: dict[str, str], action: str, body: Any = None, *, method: str = "POST") -> Any:
        return self.shop_client.client.open(
            f"{PATH}/{self.conversation_id}/{action}", method=method, json=body, headers=headers
        )


@pytest.fixture
def chat(shop_client: ShopClient) -> Chat:
    return Chat(shop_client)


def write_to(shop_client: ShopClient, vendor_id: Any, **fields: Any) -> Any:
    body = {"vendorId": str(vendor_id), "body": "Good morning."} | fields
    return shop_client.post(SEND, shop_client.buyer, body)


class TestFirstMessage:
    def test_first_message_opens_the_conversation_for_both(self, chat: Chat) -> None:
        mine, theirs = chat.view(chat.buyer), chat.view(chat.vendor)
        assert (mine["side"], mine["unreadCount"], theirs["side"], theirs["unreadCount"]) == (
            "buyer",
            0,
            "vendor",
            1,
        )
        assert mine["vendor"]["displayName"] == "Ngozi's Lamps"
        assert theirs["buyer"]["name"] == "Buyer"
        assert mine["counterpartId"] == str(chat.shop_client.shop.vendor.id)
        assert theirs["counterpartId"] == str(chat.shop_client.shop.buyer.id)
        assert mine["lastMessage"]["excerpt"] == "Is the lamp still available?"

    def test_two_first_messages_at_once_share_the_conversation(self, shop_client: ShopClient) -> None:
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda _: write_to(shop_client, shop_client.shop.store_id), range(3)))
        assert [answer.status_code for answer in answers] == [201] * 3
        messages = [answer.json["data"] for answer in answers]
        assert len({message["conversationId"] for message in messages}) == 1
        assert sorted(message["number"] for message in messages) == [1, 2, 3]

    def test_own_unknown_and_closed_stores_are_refused(self, shop_client: ShopClient) -> None:
        own = shop_client.post(
            SEND, shop_client.vendor, {"vendorId": str(shop_client.shop.store_id), "body": "Hello"}
        )
        assert assert_problem(own, 422, "VALIDATION_FAILED")["reason"] == "own-store-conversation"
        assert_problem(write_to(shop_client, uuid4()), 404, "RESOURCE_NOT_FOUND")
        with shop_client.database.transaction() as session:
            session.get_one(VendorProfile, shop_client.shop.store_id).status = "closed"
        closed = write_to(shop_client, shop_client.shop.store_id)
        assert assert_problem(closed, 409, "CONCURRENCY_CONFLICT")["reason"] == "store-unavailable"

    def test_closed_store_still_answers_in_an_open_conversation(self, chat: Chat) -> None:
        with chat.shop_client.database.transaction() as session:
            session.get_one(VendorProfile, chat.shop_client.shop.store_id).status = "closed"
        assert chat.from_buyer("Where is my order?")["number"] == 2
        assert chat.from_vendor("On the way.")["number"] == 3

    def test_new_conversations_are_limited_per_day_also_at_once(
        self, shop_client: ShopClient, database: Database
    ) -> None:
        campus_id, buyer_id = shop_client.shop.campus_id, shop_client.shop.buyer.id

        def make_stores(session: Any) -> list[UUID]:
            return [make_store(session, campus_id=campus_id)[0] for _ in range(MAX_NEW_CONVERSATIONS + 2)]

        stores = database.in_transaction(make_stores)
        for store_id in stores[: MAX_NEW_CONVERSATIONS - 1]:
            assert write_to(shop_client, store_id).status_code == 201
        with ThreadPoolExecutor(3) as pool:
            answers = list(
                pool.map(
                    lambda store_id: write_to(shop_client, store_id), stores[MAX_NEW_CONVERSATIONS - 1 :]
                )
            )
        assert sorted(answer.status_code for answer in answers) == [201, 429, 429]
        [refused, _] = [answer for answer in answers if answer.status_code == 429]
        assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400
        # Earlier conversations go on, and the limit ends with the day.
        assert write_to(shop_client, stores[0]).status_code == 201
        with database.transaction() as session:
            session.execute(
                text(
                    "UPDATE conversations SET created_at = created_at - interval '1 day' WHERE buyer_id = :id"
                ),
                {"id": buyer_id},
            )
        open_store = next(store for store in stores[-2:] if not _knows(database, buyer_id, store))
        assert write_to(shop_client, open_store).status_code == 201

    def test_repeated_request_with_the_same_key_sends_once(self, chat: Chat) -> None:
        key, body = new_key(), {"conversationId": chat.conversation_id, "body": "Yes."}
        answers = [chat.shop_client.post(SEND, chat.vendor, body, key=key) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json["data"] == answers[1].json["data"]
        assert chat.view(chat.buyer)["lastMessage"]["number"] == 2


def _knows(database: Database, buyer_id: UUID, store_id: UUID) -> bool:
    with database.reading() as session:
        found = session.execute(
            text("SELECT 1 FROM conversations WHERE buyer_id = :buyer AND vendor_id = :store"),
            {"buyer": buyer_id, "store": store_id},
        )
        return found.first() is not None


class TestHistory:
    def test_pages_go_back_and_forth_without_gaps(self, chat: Chat) -> None:
        sent = [chat.view(chat.buyer)["lastMessage"]["id"]]
        for number in range(6):
            send = chat.from_vendor if number % 2 else chat.from_buyer
            sent.append(send(f"Message {'abcdefg'[number]}")["id"])
        pages, cursor = [], None
        while True:
            page = chat.messages(chat.buyer, limit=3, **({"cursor": cursor} if cursor else {}))
            pages.append([message["id"] for message in page["data"]])
            cursor = page["meta"]["next_cursor"]
            if not page["meta"]["has_more"]:
                break
        assert [len(page) for page in pages] == [3, 3, 1]
        assert [message_id for page in pages for message_id in page] == sent[::-1]

        newer = chat.messages(chat.vendor, direction="newer", fromId=sent[2], limit=2)
        assert [message["id"] for message in newer["data"]] == sent[3:5]
        following = chat.messages(
            chat.vendor, direction="newer", fromId=sent[2], limit=2, cursor=newer["meta"]["next_cursor"]
        )
        assert [message["id"] for message in following["data"]] == sent[5:]
        assert not following["meta"]["has_more"]
        older = chat.messages(chat.vendor, fromId=sent[2])
        assert [message["id"] for message in older["data"]] == sent[1::-1]

    def test_foreign_message_as_start_is_refused(self, chat: Chat) -> None:
        refused = chat.shop_client.get(
            f"{PATH}/{chat.conversation_id}/messages", chat.buyer, fromId=str(uuid4())
        )
        assert faults(refused) == ["fromId"]

    def test_outsiders_find_no_conversation(self, chat: Chat) -> None:
        stranger, staff = chat.shop_client.stranger, chat.shop_client.officer("admin")
        for headers in (stranger, staff):
            for path in ("", "/messages", "/phone-exchange"):
                refused = chat.shop_client.get(f"{PATH}/{chat.conversation_id}{path}", headers)
                assert_problem(refused, 404, "RESOURCE_NOT_FOUND")
            refused = chat.shop_client.post(
                SEND, headers, {"conversationId": chat.conversation_id, "body": "Hi"}
            )
            assert_problem(refused, 404, "RESOURCE_NOT_FOUND")
            for action in ("read", "mute", "block"):
                refused = chat.do(headers, action, {} if action == "read" else None)
                assert_problem(refused, 404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"body": ""}, ["body"]),
            ({"body": " \n "}, ["body"]),
            ({"body": "x" * 2_001}, ["body"]),
            ({"imageIds": [str(uuid4())]}, ["imageIds[0]"]),
            ({"productId": str(uuid4())}, ["productId"]),
            ({"orderId": str(uuid4())}, ["orderId"]),
            ({"conversationId": str(uuid4())}, ["conversationId"]),
            ({"vendorId": None}, ["conversationId"]),
            ({"sender": "vendor"}, ["sender"]),
        ],
    )
    def test_faulty_message_is_refused(
        self, shop_client: ShopClient, fields: dict[str, Any], names: list[str]
    ) -> None:
        assert faults(write_to(shop_client, shop_client.shop.store_id, **fields)) == names
        with shop_client.database.reading() as session:
            found = session.execute(
                text("SELECT 1 FROM conversations WHERE buyer_id = :id"), {"id": shop_client.shop.buyer.id}
            )
            assert found.first() is None


class TestReading:
    def test_receipts_follow_the_newest_message_that_was_shown(self, chat: Chat) -> None:
        second = chat.from_buyer("And the shade?")
        third = chat.from_buyer("Hello?")
        assert chat.view(chat.vendor)["unreadCount"] == 3
        shown = chat.do(chat.vendor, "read", {"upToId": second["id"]}).json["data"]
        assert shown["unreadCount"] == 1
        assert [message["read"] for message in chat.messages(chat.buyer)["data"]] == [False, True, True]
        assert chat.view(chat.buyer)["theirReadNumber"] == 2
        # An older receipt that comes late changes nothing.
        assert chat.do(chat.vendor, "read", {}).json["data"]["unreadCount"] == 0
        assert chat.do(chat.vendor, "read", {"upToId": second["id"]}).json["data"]["unreadCount"] == 0
        assert chat.messages(chat.buyer)["data"][0] | {"read": True} == third | {"read": True}
        assert chat.messages(chat.buyer)["data"][0]["read"]
        assert faults(chat.do(chat.vendor, "read", {"upToId": str(uuid4())})) == ["upToId"]

    def test_messages_and_receipts_at_once_keep_the_count(self, chat: Chat) -> None:
        def act(number: int) -> int:
            if number % 2:
                return int(chat.do(chat.vendor, "read", {}).status_code)
            answer = chat.shop_client.post(
                SEND, chat.buyer, {"conversationId": chat.conversation_id, "body": f"Part {number}"}
            )
            return int(answer.status_code)

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(act, range(12))) == {200, 201}
        messages = chat.messages(chat.vendor)["data"]
        assert [message["number"] for message in messages] == list(range(7, 0, -1))
        assert chat.view(chat.vendor)["unreadCount"] == sum(not message["read"] for message in messages)

    def test_list_shows_both_sides_with_counts(self, chat: Chat, database: Database) -> None:
        # The vendor also buys from another store.
        other = database.in_transaction(make_shop)
        answer = chat.shop_client.post(
            SEND, chat.vendor, {"vendorId": str(other.store_id), "body": "Do you have bulbs?"}
        )
        assert answer.status_code == 201
        chat.from_buyer("Are you there?")
        page = chat.shop_client.get(PATH, chat.vendor).json
        assert not ConversationView(many=True).validate(page["data"])
        assert [(one["side"], one["unreadCount"]) for one in page["data"]] == [("vendor", 2), ("buyer", 0)]
        assert page["meta"]["unreadCount"] == 1
        for query, ids in (
            ({"side": "buyer"}, [answer.json["data"]["conversationId"]]),
            ({"side": "vendor"}, [chat.conversation_id]),
            ({"unread": "true"}, [chat.conversation_id]),
            ({"side": "buyer", "unread": "true"}, []),
        ):
            listed = chat.shop_client.get(PATH, chat.vendor, **query).json["data"]
            assert [one["id"] for one in listed] == ids
        first = chat.shop_client.get(PATH, chat.vendor, limit=1).json
        second = chat.shop_client.get(PATH, chat.vendor, limit=1, cursor=first["meta"]["next_cursor"]).json
        assert [one["data"][0]["id"] for one in (first, second)] == [one["id"] for one in page["data"]]
        assert not second["meta"]["has_more"]


class TestNotifications:
    def test_run_of_unread_messages_notifies_once(self, chat: Chat) -> None:
        vendor_id = chat.shop_client.shop.vendor.id
        for _ in range(3):
            chat.from_buyer("Still there?")
        [notification] = notifications_of(chat.shop_client.database, vendor_id)
        assert notification["type"] == "message_received"
        assert notification["title"] == "New message from Buyer"
        assert "lamp" not in notification["body"]
        chat.do(chat.vendor, "read", {})
        chat.from_buyer("Thanks!")
        assert len(notifications_of(chat.shop_client.database, vendor_id)) == 2

    def test_muted_conversation_does_not_notify(self, chat: Chat) -> None:
        vendor_id = chat.shop_client.shop.vendor.id
        chat.do(chat.vendor, "read", {})
        assert chat.do(chat.vendor, "mute").json["data"]["muted"]
        assert not chat.view(chat.buyer)["muted"]
        chat.from_buyer("Hello?")
        assert len(notifications_of(chat.shop_client.database, vendor_id)) == 1
        assert not chat.do(chat.vendor, "mute", method="DELETE").json["data"]["muted"]
        chat.do(chat.vendor, "read", {})
        chat.from_buyer("Hello again")
        assert len(notifications_of(chat.shop_client.database, vendor_id)) == 2


class TestCardsAndPictures:
    def test_product_and_order_are_shown_as_cards(self, chat: Chat) -> None:
        product_id, order_id = chat.shop_client.product(), chat.shop_client.paid()
        message = chat.from_buyer("This one", productId=str(product_id), orderId=str(order_id))
        assert message["product"]["id"] == str(product_id)
        assert message["product"]["available"]
        assert message["order"] | {"number": ""} == {
            "id": str(order_id),
            "number": "",
            "status": "paid_escrow",
            "totalMinor": message["order"]["totalMinor"],
        }
        assert chat.messages(chat.vendor)["data"][0]["order"]["id"] == str(order_id)

    def test_cards_of_other_people_are_refused(self, chat: Chat, database: Database) -> None:
        other = database.in_transaction(make_shop)
        foreign = database.in_transaction(make_product, other)
        draft = chat.shop_client.product(status="draft")
        for product_id in (foreign, draft):
            refused = write_to(chat.shop_client, chat.shop_client.shop.store_id, productId=str(product_id))
            assert faults(refused) == ["productId"]
        unpaid = chat.shop_client.unpaid()
        # Vendors do not see unpaid orders.
        refused = chat.shop_client.post(
            SEND,
            chat.vendor,
            {"conversationId": chat.conversation_id, "body": "Pay this", "orderId": str(unpaid)},
        )
        assert faults(refused) == ["orderId"]
        assert chat.from_buyer("This one", orderId=str(unpaid))["order"]["id"] == str(unpaid)

    def test_pictures_are_own_uploads_and_used_once(self, chat: Chat) -> None:
        own = [self._image(chat, chat.shop_client.shop.buyer.id) for _ in range(2)]
        message = chat.from_buyer("Look", imageIds=own[::-1])
        assert [image["id"] for image in message["images"]] == own[::-1]
        assert chat.view(chat.vendor)["lastMessage"]["hasPictures"]
        with chat.shop_client.database.reading() as session:
            assert row_of(session, "images", id=own[0])["unused_since"] is None
        for image_id in (
            own[0],
            self._image(chat, chat.shop_client.shop.vendor.id),
            self._image(chat, chat.shop_client.shop.buyer.id, purpose="review"),
        ):
            refused = write_to(chat.shop_client, chat.shop_client.shop.store_id, imageIds=[image_id])
            assert faults(refused) == ["imageIds[0]"]

    def _image(self, chat: Chat, owner_id: UUID, purpose: str = "chat") -> str:
        with chat.shop_client.database.transaction() as session:
            image = Image(owner_id=owner_id, purpose=purpose, status="ready", key=f"chat/{uuid4().hex}.webp")
            session.add(image)
            session.flush()
            return str(image.id)


class TestBlocking:
    def test_block_stops_both_until_it_is_removed(self, chat: Chat) -> None:
        blocked = chat.do(chat.buyer, "block").json["data"]
        assert (blocked["blockedByYou"], blocked["canSend"]) == (True, False)
        assert chat.do(chat.buyer, "block").status_code == 200
        theirs = chat.view(chat.vendor)
        assert (theirs["blockedByYou"], theirs["canSend"]) == (False, False)
        for headers in (chat.buyer, chat.vendor):
            refused = chat.shop_client.post(
                SEND, headers, {"conversationId": chat.conversation_id, "body": "Hello"}
            )
            assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "conversation-blocked"
        # The other party cannot remove the block.
        chat.do(chat.vendor, "block", method="DELETE")
        assert not chat.view(chat.vendor)["canSend"]
        assert chat.do(chat.buyer, "block", method="DELETE").json["data"]["canSend"]
        assert chat.from_vendor("Thank you")["number"] == 2

    def test_reported_message_reaches_staff_and_is_removed(self, chat: Chat) -> None:
        rude = chat.from_vendor("You are a fool")
        body = {"targetType": "message", "targetId": rude["id"], "reason": "offensive"}
        outsider = chat.shop_client.post("/api/users/content-flags", chat.shop_client.stranger, body)
        assert_problem(outsider, 404, "RESOURCE_NOT_FOUND")
        own = chat.shop_client.post("/api/users/content-flags", chat.vendor, body)
        assert assert_problem(own, 403, "AUTH_FORBIDDEN")["reason"] == "own-content"
        assert chat.shop_client.post("/api/users/content-flags", chat.buyer, body).status_code == 201

        admin = chat.shop_client.officer("admin")
        queue = chat.shop_client.get("/api/admin/reports", admin, targetType="message", limit=100).json[
            "data"
        ]
        [case] = [one for one in queue if one["targetId"] == rude["id"]]
        assert case["ownerId"] == str(chat.shop_client.shop.vendor.id)
        detail = chat.shop_client.get(f"/api/admin/reports/{case['id']}", admin).json["data"]
        assert [message["body"] for message in detail["messages"]] == [
            "Is the lamp still available?",
            "You are a fool",
        ]
        decided = chat.shop_client.post(
            f"/api/admin/reports/{case['id']}/decide",
            admin,
            {"outcome": "upheld", "reason": "Insults are against the rules."},
        )
        assert decided.status_code == 200, decided.json
        shown = chat.messages(chat.buyer)["data"][0]
        assert (shown["body"], shown["removed"]) == (None, True)
        assert chat.view(chat.buyer)["lastMessage"]["excerpt"] is None

    def test_people_of_a_conversation_can_report_each_other(self, chat: Chat) -> None:
        body = {"targetType": "user", "targetId": str(chat.shop_client.shop.buyer.id), "reason": "spam"}
        assert chat.shop_client.post("/api/users/content-flags", chat.vendor, body).status_code == 201


class TestPhoneExchange:
    def verify(self, chat: Chat, user_id: UUID, phone: str) -> None:
        with chat.shop_client.database.transaction() as session:
            profile = session.get_one(Profile, user_id)
            profile.phone, profile.phone_verified_at = phone, datetime.now(UTC)

    def test_numbers_stay_masked_until_both_agree(self, chat: Chat) -> None:
        shop = chat.shop_client.shop
        numbers = [f"+23480{uuid4().int % 10**8:08d}" for _ in range(2)]
        refused = chat.do(chat.buyer, "phone-exchange")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "no-shipped-order"
        chat.shop_client.shipped()
        refused = chat.do(chat.buyer, "phone-exchange")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "phone-not-verified"
        for user_id, phone in zip((shop.buyer.id, shop.vendor.id), numbers, strict=True):
            self.verify(chat, user_id, phone)

        asked = chat.do(chat.buyer, "phone-exchange").json["data"]
        assert (asked["status"], asked["yourPhone"]) == ("requested", numbers[0])
        assert asked["theirPhone"] == f"+234********{numbers[1][-2:]}"
        [*_, notification] = notifications_of(chat.shop_client.database, shop.vendor.id)
        assert "phone_exchange_requested" in {
            one["type"] for one in notifications_of(chat.shop_client.database, shop.vendor.id)
        }
        assert numbers[0] not in str(notification)
        shared = chat.do(chat.vendor, "phone-exchange").json["data"]
        assert (shared["status"], shared["theirPhone"]) == ("shared", numbers[0])
        assert chat.do(chat.buyer, "phone-exchange", method="GET").json["data"]["theirPhone"] == numbers[1]

        ended = chat.do(chat.vendor, "phone-exchange", method="DELETE").json["data"]
        assert (ended["status"], ended["theirPhone"]) == ("none", f"+234********{numbers[0][-2:]}")
        assert chat.do(chat.buyer, "phone-exchange", method="GET").json["data"]["status"] == "none"


def test_page_takes_a_fixed_number_of_statements(chat: Chat, database: Database) -> None:
    def count(path: str) -> int:
        with counted_statements(database) as statements:
            assert chat.shop_client.get(path, chat.buyer).status_code == 200
        return len(statements)

    paths = (PATH, f"{PATH}/{chat.conversation_id}/messages")
    before = [count(path) for path in paths]
    for number in range(5):
        chat.from_vendor(f"Answer {'abcde'[number]}", productId=str(chat.shop_client.product()))
    assert [count(path) for path in paths] == before
