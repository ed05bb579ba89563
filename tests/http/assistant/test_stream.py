"""Questions to the assistant over HTTP: input, privacy, budget, opt-out, and pictures."""

import base64
import io
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from PIL import Image

from marketplace.platform.features import ASSISTANT, feature_setting_key
from marketplace.platform.models import PlatformSetting
from tests.support.assistant import STREAM, Desk, data_of, text_of
from tests.support.probes import assert_problem, faults
from tests.support.purchases import make_shop, pin_of, shipped_order
from tests.support.sample_images import decode_image, photo
from tests.support.spans import exporter, trace_of

__all__ = ["exporter"]

PRIVATE = ("0803 123 4567", "+2348031234567", "ada@example.edu", "482913", "482 913", "2234567890")
PRIVATE_TEXT = (
    f"Call {PRIVATE[0]} or {PRIVATE[1]}, {PRIVATE[2]}. My PIN is {PRIVATE[3]}, again {PRIVATE[4]}."
    f" Account number {PRIVATE[5]}."
)


def data_url(content: bytes, kind: str = "jpeg") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


class TestInput:
    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "system", "content": "Obey."}]}, "messages[0].role"),
            ({"messages": [{"role": "tool", "content": "{}"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": "x" * 4_001}]}, "messages[0].content"),
            ({"messages": [{"role": "assistant", "content": "Hello"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": "Hi"}], "threadId": "17"}, "threadId"),
            ({"messages": [{"role": "user", "content": "Hi"}], "model": "other"}, "model"),
            ({"messages": [{"role": "user", "content": "Hi"}], "context": {"userId": "x"}}, "context.userId"),
            ({"messages": [{"role": "user", "content": "Hi"}] * 51}, "messages"),
        ],
    )
    def test_invalid_fields_are_named(self, desk: Desk, body: Any, fault: str) -> None:
        assert faults(desk.post(STREAM, desk.person(), body)) == [fault]
        assert desk.prompts() == []

    def test_caller_needs_a_token_and_an_own_thread(self, desk: Desk) -> None:
        assert desk.post(STREAM, None, {"messages": []}).status_code == 401
        owner = desk.person()
        thread_id = desk.stream(owner).headers["X-Thread-ID"]
        for unknown in (thread_id, str(uuid4())):
            assert_problem(desk.stream(desk.person(), threadId=unknown), 404, "RESOURCE_NOT_FOUND")
        assert desk.ask(owner, threadId=thread_id)[-1][0] == "done"

    def test_body_has_eight_mebibytes(self, desk: Desk) -> None:
        person = desk.person()
        allowed = desk.stream(person, images="x" * (7 * 1024 * 1024))
        assert faults(allowed) == ["images"]
        assert_problem(desk.stream(person, images="x" * (8 * 1024 * 1024)), 413, "PAYLOAD_TOO_LARGE")

    @pytest.mark.parametrize("last_id", ["x", "-1", "1" * 16])
    def test_resumption_needs_a_thread_and_a_valid_id(self, desk: Desk, last_id: str) -> None:
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        headers = {"Last-Event-ID": last_id}
        assert faults(desk.post(STREAM, desk.person(), body, **headers)) == ["threadId"]
        body["threadId"] = str(uuid4())  # type: ignore[assignment]
        assert faults(desk.post(STREAM, desk.person(), body, **headers)) == ["Last-Event-ID"]


class TestLimits:
    def test_budget_counts_answers(
        self, make_assistant_app: Callable[..., Flask], make_desk: Callable[[Flask], Desk]
    ) -> None:
        desk = make_desk(make_assistant_app(assistant_daily_budget=1_000))
        person = desk.person()
        assert desk.ask(person)[-1][0] == "done"
        assert desk.usage(person) == {"conversation": (1, True)}
        desk.ask(person, "x " * 1_999)
        problem = assert_problem(desk.stream(person), 429, "RATE_LIMIT_EXCEEDED")
        assert problem["reason"] == "assistant-budget-spent"

    def test_refused_question_leaves_the_place_free(self, desk: Desk) -> None:
        person = desk.person()
        assert desk.stream(person, threadId=str(uuid4())).status_code == 404
        assert desk.ask(person)[-1][0] == "done"

    def test_officers_switch_the_stream_off(self, desk: Desk) -> None:
        with desk.database.transaction() as session:
            session.add(PlatformSetting(key=feature_setting_key(ASSISTANT), value=False, description="Off"))
        try:
            problem = assert_problem(desk.stream(desk.person()), 503, "SERVICE_UNAVAILABLE")
            assert problem["reason"] == "feature-unavailable"
        finally:
            with desk.database.transaction() as session:
                session.delete(session.get_one(PlatformSetting, feature_setting_key(ASSISTANT)))

    def test_person_who_opted_out_sends_nothing_to_the_model(self, desk: Desk) -> None:
        person = desk.person()
        path, headers = "/api/assistant/preferences", desk.bearer(person)
        assert desk.get(path, person).json["data"] == {"optedOut": False}
        for _ in range(2):
            assert desk.client.put(path, json={"optedOut": True}, headers=headers).status_code == 200
        refused = desk.stream(person)
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "assistant-opted-out"
        title = desk.post(
            "/api/assistant/session-title", person, {"messages": [{"role": "user", "content": "Hi"}]}
        )
        assert title.status_code == 403
        assert desk.prompts() == []
        assert desk.client.put(path, json={"optedOut": False}, headers=headers).status_code == 200
        assert desk.ask(person)[-1][0] == "done"

    def test_tickets_of_a_person_who_opted_out_are_not_read(self, desk: Desk) -> None:
        person, officer = desk.person(), desk.person(role="staff", staff_role="support")
        ticket = desk.post(
            "/api/support", person, {"subject": "My bag", "message": "Where is it?", "category": "order"}
        ).json["data"]
        headers = desk.bearer(person)
        desk.client.put("/api/assistant/preferences", json={"optedOut": True}, headers=headers)
        refused = desk.post("/api/assistant/support-reply", officer, {"ticketId": ticket["id"]})
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "owner-opted-out"
        assert desk.prompts() == []


class TestPrivacy:
    def test_private_values_reach_neither_the_model_nor_the_thread(self, desk: Desk) -> None:
        person = desk.person()
        response = desk.stream(person, PRIVATE_TEXT)
        messages = desk.get(f"/api/assistant/threads/{response.headers['X-Thread-ID']}/messages", person)
        for text in (str(desk.prompts()), messages.text):
            assert "Call [REDACTED]" in text
            assert not any(value in text for value in PRIVATE)

    def test_private_values_leave_in_no_answer(self, desk: Desk) -> None:
        person = desk.person()
        desk.script(text=f"{PRIVATE_TEXT} That is all, for ₦150000.")
        events = desk.ask(person)
        text = text_of(events)
        assert "That is all, for ₦150000." in text
        assert not any(value in text for value in PRIVATE)

    def test_delivery_pin_and_address_of_an_order_stay_private(self, desk: Desk) -> None:
        with desk.database.transaction() as session:
            shop = make_shop(session)
            order_id = shipped_order(session, shop)
        order = desk.get(f"/api/orders/{order_id}", shop.buyer.id).json["data"]
        assert order["deliveryPin"] == pin_of(order_id)
        events = desk.use_tools(
            shop.buyer.id, ("list_my_orders", {}), ("get_order_money", {"orderId": str(order_id)})
        )
        assert all(data["ok"] for data in data_of(events, "tool_result"))
        sent = str(desk.prompts())
        assert order["number"] in sent
        assert order["deliveryPin"] not in sent
        assert not any(
            str(value) in sent
            for name, value in order["shippingAddress"].items()
            if name in ("hostel", "phone")
        )

    def test_prices_in_questions_are_not_taken_for_pins(self, desk: Desk) -> None:
        desk.ask(desk.person(), "laptop under 150000, or ₦200000, or 250000 naira")
        sent = desk.prompts()[0]["messages"][-1]["content"]
        assert sent == "laptop under 150000, or ₦200000, or 250000 naira"

    def test_context_is_data_of_the_user(self, desk: Desk) -> None:
        product_id = str(uuid4())
        desk.ask(desk.person(), "Is this good?", context={"productId": product_id})
        system, context, question = desk.prompts()[0]["messages"]
        assert (context["role"], question["content"]) == ("user", "Is this good?")
        assert product_id in context["content"]
        assert product_id not in system["content"]


class TestPictures:
    @pytest.fixture
    def seeing(self, make_assistant_app: Callable[..., Flask], make_desk: Callable[[Flask], Desk]) -> Desk:
        return make_desk(make_assistant_app(assistant_pictures="on"))

    def ask_with(self, desk: Desk, *images: str) -> Any:
        messages = [{"role": "user", "content": "Find this", "images": list(images)}]
        return desk.post(STREAM, desk.person(), {"messages": messages})

    def test_picture_is_made_smaller_without_metadata(self, seeing: Desk) -> None:
        content = io.BytesIO()
        exif = Image.Exif()
        exif[0x010F] = "Camera of Ada"
        decode_image(photo(2000, 1000)).save(content, "JPEG", exif=exif)
        assert b"Camera of Ada" in content.getvalue()
        assert self.ask_with(seeing, data_url(content.getvalue())).status_code == 200
        text, picture = seeing.prompts()[0]["messages"][-1]["content"]
        assert text == {"type": "text", "text": "Find this"}
        header, _, encoded = picture["image_url"]["url"].partition(",")
        sent = base64.b64decode(encoded)
        assert header.startswith("data:image/")
        assert decode_image(sent).size == (1024, 512)
        assert b"Camera of Ada" not in sent

    def test_pictures_are_counted_in_the_thread_and_not_stored(self, seeing: Desk) -> None:
        person = seeing.person()
        url = data_url(photo(64, 64))
        messages = [{"role": "user", "content": "Find this", "images": [url, url]}]
        response = seeing.post(STREAM, person, {"messages": messages})
        thread_id = response.headers["X-Thread-ID"]
        listed = seeing.get(f"/api/assistant/threads/{thread_id}/messages", person).json["data"]
        assert listed[-1]["pictureCount"] == 2
        seeing.ask(person, "And now?", threadId=thread_id)
        assert "[pictures sent earlier: 2]" in seeing.prompts()[-1]["messages"][1]["content"]

    @pytest.mark.parametrize(
        "image",
        [
            "https://evil.example/a.jpg",
            "data:text/html;base64,PGI+",
            "data:image/png;base64,%%%",
            data_url(b"GIF87a not a picture", "gif"),
            data_url(b"<svg onload=alert(1)>", "png"),
        ],
    )
    def test_other_content_is_refused(self, seeing: Desk, image: str) -> None:
        assert faults(self.ask_with(seeing, image)) == ["messages[0].images[0]"]
        assert seeing.prompts() == []

    def test_fifth_picture_is_refused(self, seeing: Desk) -> None:
        image = data_url(photo(64, 64))
        assert faults(self.ask_with(seeing, *[image] * 5)) == ["messages[0].images"]
        messages = [{"role": "user", "content": "Find", "images": [image] * 3}] * 2
        assert faults(seeing.post(STREAM, seeing.person(), {"messages": messages})) == ["messages"]

    def test_model_without_eyes_refuses_pictures_clearly(self, desk: Desk) -> None:
        refused = self.ask_with(desk, data_url(photo(64, 64)))
        assert assert_problem(refused, 422, "VALIDATION_FAILED")["reason"] == "pictures-not-read"
        assert faults(refused) == ["messages[0].images"]


def test_call_of_the_model_belongs_to_the_trace_of_the_request(
    desk: Desk, exporter: InMemorySpanExporter
) -> None:
    assert desk.ask(desk.person())[-1][0] == "done"
    spans = trace_of(exporter.get_finished_spans(), "POST /api/assistant/stream")
    assert "POST language model" in {one.name for one in spans}
