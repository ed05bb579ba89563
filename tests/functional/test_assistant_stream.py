"""Answers of the assistant as streams over HTTP, by a real gevent process and the sandbox's language model."""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import requests

from marketplace.assistant import answers
from marketplace.audit.operations import Act
from marketplace.people.account_status import SUSPENDED, bar_account
from sandbox.process import Process
from tests.support.purchases import Shop, make_product
from tests.support.service_processes import ServiceProcesses
from tests.support.stream_site import SECONDS, EventReader, GeventSite, ensure_launched, gevent_process

QUESTION = "Find a reading lamp under 10k"
POOL = 2


class AssistantSite(GeventSite):
    """A site with the assistant, and the control of the language model."""

    def __init__(self, site: ServiceProcesses, port: int) -> None:
        super().__init__(site, port)
        self.askers: set[UUID] = set()

    @property
    def controls(self) -> str:
        """The address of the language model's controls."""
        return f"{self.site.providers.ai_url}/sandbox/completions"

    def plan(self, **values: Any) -> None:
        """Plan outcomes or the pace of the language model."""
        requests.put(self.controls, json=values, timeout=SECONDS).raise_for_status()

    def model(self) -> dict[str, Any]:
        """Return the calls that the language model received."""
        data: dict[str, Any] = requests.get(self.controls, timeout=SECONDS).json()["data"]
        return data

    def request(
        self,
        user_id: UUID,
        question: str = QUESTION,
        *,
        thread_id: str | None = None,
        last_event_id: int | None = None,
        url: str | None = None,
        **claims: Any,
    ) -> requests.Response:
        """Request a stream."""
        headers = self.authorization(user_id, **claims)
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        body: dict[str, Any] = {"messages": [{"role": "user", "content": question}]}
        if thread_id is not None:
            body["threadId"] = thread_id
        response = requests.post(
            f"{url or self.url}/api/assistant/stream",
            json=body,
            headers=headers,
            stream=True,
            timeout=SECONDS,
        )
        self.stack.callback(response.close)
        self.askers.add(user_id)
        return response

    def ask(self, user_id: UUID, question: str = QUESTION, **options: Any) -> EventReader:
        """Open a stream."""
        response = self.request(user_id, question, **options)
        assert response.status_code == 200, response.text
        return EventReader(response)

    def messages(self, user_id: UUID, thread_id: str) -> list[dict[str, Any]]:
        """List the messages of a thread, oldest first."""
        response = requests.get(
            f"{self.url}/api/assistant/threads/{thread_id}/messages",
            headers=self.authorization(user_id),
            timeout=SECONDS,
        )
        data: list[dict[str, Any]] = response.json()["data"]
        return data[::-1]

    def is_free(self, user_id: UUID) -> bool:
        """Return whether a person has no answer in progress."""
        return self.services.cache.run(answers._READ_SLOT, [answers._slot_key(user_id)]) is None


@pytest.fixture(scope="module")
def process(whole_site: ServiceProcesses) -> Iterator[tuple[Process, int]]:
    url = whole_site.providers.ai_url
    with gevent_process(
        whole_site, ASSISTANT_URL=url, ASSISTANT_READ_SECONDS="4", DATABASE_POOL_SIZE=str(POOL)
    ) as made:
        yield made


@pytest.fixture
def assistant(whole_site: ServiceProcesses, process: tuple[Process, int]) -> Iterator[AssistantSite]:
    server, port = process
    ensure_launched(whole_site, server, port)
    site = AssistantSite(whole_site, port)
    requests.delete(site.controls, timeout=SECONDS)
    with site.stack:
        yield site
    # An answer that still runs would take the outcome that the next test plans.
    site.wait_for(lambda: all(map(site.is_free, site.askers)))
    requests.delete(site.controls, timeout=SECONDS)
    site.services.database.close()


def text_of(events: list[tuple[str, dict[str, Any]]]) -> str:
    return "".join(data["text"] for name, data in events if name == "token")


def test_answer_uses_tools_and_is_stored(assistant: AssistantSite, shop: Shop) -> None:
    assistant.services.database.in_transaction(make_product, shop)
    stream = assistant.ask(shop.buyer.id)
    thread_id = stream.response.headers["X-Thread-ID"]
    events = stream.rest()

    names = [name for name, _ in events]
    assert names[:2] == ["tool_call", "tool_result"]
    assert set(names[2:-1]) == {"token"}
    assert events[-1][0] == "done"
    assert events[0][1]["arguments"] == {"query": "reading lamp", "maxPriceMinor": 1_000_000}
    assert "Reading lamp" in text_of(events)
    ids = [data["id"] for _, data in events]
    assert ids == sorted(set(ids))
    assert events[-1][1]["threadId"] == thread_id
    stored = assistant.messages(shop.buyer.id, thread_id)
    assert [(message["role"], message["isComplete"]) for message in stored] == [
        ("user", True),
        ("assistant", True),
    ]
    assert stored[1]["body"] == text_of(events)
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert stream.response.headers["X-Accel-Buffering"] == "no"
    assert assistant.is_free(shop.buyer.id)


def test_earlier_messages_of_the_thread_reach_the_model(assistant: AssistantSite) -> None:
    person = assistant.person()
    first = assistant.ask(person, "Good evening")
    thread_id = first.response.headers["X-Thread-ID"]
    first.rest()
    events = assistant.ask(person, "Where are the hubs?", thread_id=thread_id).rest()

    sent = assistant.model()["prompts"][-1]["messages"]
    assert [message["role"] for message in sent][:4] == ["system", "user", "assistant", "user"]
    assert sent[1]["content"] == "Good evening"
    assert events[-1][1]["messageNumber"] == 4


def test_second_stream_of_a_person_is_refused(assistant: AssistantSite) -> None:
    person, other = assistant.person(), assistant.person()
    assistant.plan(tokensPerSecond=5)
    stream = assistant.ask(person, "Hello")
    stream.next_event()

    refused = assistant.request(person, "Hello")
    assert (refused.status_code, refused.json()["reason"]) == (409, "answer-in-progress")
    assert assistant.request(other, "Hello").status_code == 200


def test_closed_connection_ends_the_call_and_frees_the_place(assistant: AssistantSite) -> None:
    person = assistant.person()
    assistant.plan(tokensPerSecond=2)
    # Streams of other tests that were stopped can still be open at the provider.
    before = assistant.model()["openStreams"]
    stream = assistant.ask(person, "Hello")
    thread_id = stream.response.headers["X-Thread-ID"]
    stream.next_event()
    hang_up(stream)
    closed_at = time.monotonic()

    assistant.wait_for(lambda: assistant.is_free(person) and assistant.model()["openStreams"] <= before)
    assert time.monotonic() - closed_at < 5
    stored = assistant.messages(person, thread_id)
    assert [message["isComplete"] for message in stored] == [True, False]


def test_closed_connection_ends_a_call_without_response(assistant: AssistantSite) -> None:
    person = assistant.person()
    assistant.plan(outcome="timeout")
    stream = assistant.ask(person, "Hello")
    hang_up(stream)
    closed_at = time.monotonic()

    assistant.wait_for(lambda: assistant.is_free(person))
    # The time limit for the provider's silence is longer.
    assert time.monotonic() - closed_at < 3.5


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("error", "model-unavailable"),
        ("refused", "model-unavailable"),
        ("limited", "model-busy"),
        ("broken", "model-unavailable"),
        ("garbled", "model-unavailable"),
        ("stalled", "model-unavailable"),
        ("timeout", "model-unavailable"),
    ],
)
def test_failed_model_ends_the_stream_with_an_error(
    assistant: AssistantSite, outcome: str, code: str
) -> None:
    person = assistant.person()
    assistant.plan(outcome=outcome)
    name, data = assistant.ask(person, "Hello").skip_events("token")

    assert (name, data["code"]) == ("error", code)
    assert data["detail"]
    assert assistant.ask(person, "Hello").rest()[-1][0] == "done"


def test_interrupted_answer_is_resumed_from_another_process(
    assistant: AssistantSite, whole_site: ServiceProcesses
) -> None:
    person = assistant.person()
    assistant.plan(tokensPerSecond=20)
    stream = assistant.ask(person, "Hello")
    thread_id = stream.response.headers["X-Thread-ID"]
    for _ in range(15):
        _, last, _ = stream.next_event()
    hang_up(stream)
    assistant.wait_for(lambda: assistant.is_free(person))
    seen = last["id"] - 10

    whole_site.web()
    resumed = assistant.ask(
        person, "Hello", thread_id=thread_id, last_event_id=seen, url=whole_site.url
    ).rest()
    ids = [data["id"] for _, data in resumed]
    assert ids == list(range(seen + 1, seen + 1 + len(ids)))
    assert len(ids) > 10
    assert (resumed[-1][0], resumed[-1][1]["code"]) == ("error", "interrupted")


def test_resumption_of_a_complete_answer_repeats_the_end(assistant: AssistantSite) -> None:
    person = assistant.person()
    stream = assistant.ask(person, "Hello")
    thread_id = stream.response.headers["X-Thread-ID"]
    events = stream.rest()

    resumed = assistant.ask(person, "Hello", thread_id=thread_id, last_event_id=events[3][1]["id"]).rest()
    assert resumed == events[4:]
    stranger = assistant.person()
    [(name, data)] = assistant.ask(stranger, "Hello", thread_id=thread_id, last_event_id=1).rest()
    assert (name, data["code"]) == ("error", "interrupted")


def test_resumption_ends_an_answer_in_progress(assistant: AssistantSite) -> None:
    person = assistant.person()
    assistant.plan(tokensPerSecond=2)
    stream = assistant.ask(person, "Hello")
    thread_id = stream.response.headers["X-Thread-ID"]
    stream.next_event()
    resumed = assistant.ask(person, "Hello", thread_id=thread_id, last_event_id=0)

    assert resumed.rest()[-1][1]["code"] == "interrupted"
    assert stream.skip_events("token")[1]["code"] == "interrupted"
    assistant.wait_for(lambda: assistant.is_free(person))


def test_stream_ends_with_the_token(assistant: AssistantSite) -> None:
    assistant.plan(tokensPerSecond=2)
    # A token is accepted for 30 seconds after its end.
    stream = assistant.ask(assistant.person(), "Hello", exp=time.time() - 27)

    name, data = stream.skip_events("token")
    assert (name, data["code"]) == ("error", "token-expired")


def test_stream_ends_when_the_account_is_suspended(assistant: AssistantSite) -> None:
    person = assistant.person()
    officer = assistant.person(role="staff", staff_role="admin")
    assistant.plan(tokensPerSecond=2)
    stream = assistant.ask(person, "Hello")
    stream.next_event()
    act = Act(role="admin", now=datetime.now(UTC), user_id=officer)
    assistant.services.database.in_transaction(
        bar_account, user_id=person, status=SUSPENDED, reason="Fraud.", until=None, act=act
    )

    name, data = stream.skip_events("token")
    assert (name, data["code"]) == ("error", "account-changed")
    assert assistant.request(person).status_code == 403


def test_open_streams_hold_no_database_connection(assistant: AssistantSite) -> None:
    people = [assistant.person() for _ in range(100)]
    assistant.plan(tokensPerSecond=1)
    opened = [assistant.ask(person, "Hello") for person in people]
    for stream in opened:
        stream.next_event()

    assert assistant.model()["openStreams"] >= len(people)
    listed = requests.get(
        f"{assistant.url}/api/assistant/threads", headers=assistant.authorization(people[0]), timeout=SECONDS
    )
    assert listed.status_code == 200
    for stream in opened:
        hang_up(stream)
    assistant.wait_for(lambda: all(map(assistant.is_free, people)))


def test_slow_reader_does_not_stop_others(assistant: AssistantSite) -> None:
    slow, quick = assistant.person(), assistant.person()
    assistant.plan(replies=[{"text": f"{'w' * 5_000} " * 180}])
    stalled = open_without_reading(assistant, slow)
    assistant.wait_for(lambda: not assistant.is_free(slow))

    assert assistant.ask(quick, "Hello").rest()[-1][0] == "done"
    stalled.close()
    assistant.wait_for(lambda: assistant.is_free(slow))


def test_stream_ends_when_the_cache_goes_away(assistant: AssistantSite, whole_site: ServiceProcesses) -> None:
    person = assistant.person()
    assistant.plan(tokensPerSecond=2)
    stream = assistant.ask(person, "Hello")
    stream.next_event()
    whole_site.valkey.stop()
    try:
        name, data = stream.skip_events("token")
        assert (name, data["code"]) == ("error", "interrupted")
        assert assistant.request(person).status_code == 503
    finally:
        whole_site.valkey.start()
    assistant.wait_for(lambda: assistant.request(person, "Hello").status_code == 200)


def hang_up(stream: EventReader) -> None:
    """Close the connection as a client that goes away."""
    stream.response.raw._fp.fp.raw._sock.close()
    stream.response.close()


def open_without_reading(site: AssistantSite, user_id: UUID) -> socket.socket:
    """Request a stream with a small receive buffer, and read nothing."""
    address = urlsplit(site.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect((address.hostname, address.port))
    body = b'{"messages": [{"role": "user", "content": "Hello"}]}'
    token = site.authorization(user_id)["Authorization"]
    head = (
        f"POST /api/assistant/stream HTTP/1.1\r\nHost: tests\r\nAuthorization: {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection
