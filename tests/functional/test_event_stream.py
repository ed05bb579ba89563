"""Live event streams over HTTP, served by a real gevent process."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import requests
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.chat.reading import mark_read
from marketplace.chat.send import MessageContent, send_to_store
from marketplace.notifications import feed, live_streams
from marketplace.notifications.operations import NewNotification, notify, notify_all
from marketplace.people.account_status import SUSPENDED, bar_account
from sandbox.process import Process
from tests.support.purchases import Shop
from tests.support.service_processes import ServiceProcesses
from tests.support.stream_site import SECONDS, EventReader, GeventSite, ensure_launched, gevent_process


class StreamSite(GeventSite):
    """A site with streams of notifications."""

    def request(self, user_id: UUID, *, last_event_id: str | None = None, **claims: Any) -> requests.Response:
        """Request a stream."""
        headers = self.authorization(user_id, **claims)
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        response = requests.get(
            f"{self.url}/api/notifications/stream", headers=headers, stream=True, timeout=SECONDS
        )
        self.stack.callback(response.close)
        return response

    def open(self, user_id: UUID, **options: Any) -> EventReader:
        """Open a stream."""
        response = self.request(user_id, **options)
        assert response.status_code == 200, response.text
        return EventReader(response)

    def notify(self, user_id: UUID, title: str = "Payment received") -> str:
        """Write a notification and return the id."""
        written = self.services.database.in_transaction(
            notify,
            user_id=user_id,
            type="order_paid",
            title=title,
            body="Your payment is held until delivery.",
            link="/orders",
            cause=f"tests:{uuid4()}",
            now=datetime.now(UTC),
        )
        assert written is not None
        return str(written)

    def places(self, user_id: UUID) -> int:
        """Count a person's open streams, as all processes see them."""
        client = redis.Redis.from_url(self.site.valkey.url)
        with client:
            return int(client.zcard(live_streams.stream_key(user_id)))


@pytest.fixture(scope="module")
def process(whole_site: ServiceProcesses) -> Iterator[tuple[Process, int]]:
    with gevent_process(whole_site) as made:
        yield made


@pytest.fixture
def streams(whole_site: ServiceProcesses, process: tuple[Process, int]) -> Iterator[StreamSite]:
    server, port = process
    ensure_launched(whole_site, server, port)
    site = StreamSite(whole_site, port)
    with site.stack:
        yield site
    site.services.database.close()


def test_notification_arrives_as_the_feed_lists_it(streams: StreamSite) -> None:
    person = streams.person()
    stream = streams.open(person)
    written = streams.notify(person)

    name, data, event_id = stream.next_event()
    assert (name, event_id) == ("notification", written)
    listed = requests.get(
        f"{streams.url}/api/notifications",
        headers={"Authorization": stream.response.request.headers["Authorization"]},
        timeout=SECONDS,
    ).json()
    assert data == listed["data"][0]
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert stream.response.headers["Cache-Control"] == "no-store"


def test_notifications_of_several_people_reach_only_their_streams(streams: StreamSite) -> None:
    people = [streams.person(), streams.person()]
    opened = [streams.open(person) for person in people]
    streams.services.database.in_transaction(
        notify_all,
        notifications=[
            NewNotification(person, "order_paid", f"For {person}", "Body.", None, f"tests:{uuid4()}")
            for person in people
        ],
        now=datetime.now(UTC),
    )

    for person, stream in zip(people, opened, strict=True):
        assert stream.next_event()[1]["title"] == f"For {person}"
    last = streams.notify(people[0], title="Only for the first")
    assert opened[0].next_event()[2] == last


def test_rolled_back_notification_is_not_published(streams: StreamSite) -> None:
    person = streams.person()
    stream = streams.open(person)

    def notify_and_fail(session: Session) -> None:
        notification = NewNotification(person, "order_paid", "Never", "Never.", None, "tests:never")
        notify_all(session, notifications=[notification], now=datetime.now(UTC))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        streams.services.database.in_transaction(notify_and_fail)
    written = streams.notify(person)
    assert stream.next_event()[2] == written


def test_messages_and_receipts_reach_both_parties(streams: StreamSite, shop: Shop) -> None:
    buyer, vendor = shop.buyer.id, shop.vendor.id
    sent, received = streams.open(buyer), streams.open(vendor)
    party = streams.services.database.in_transaction(
        send_to_store,
        sender_id=buyer,
        vendor_id=shop.store_id,
        content=MessageContent("Is it new?"),
        now=datetime.now(UTC),
    )
    conversation_id = party.conversation.id
    streams.services.database.in_transaction(
        mark_read, conversation_id=conversation_id, user_id=vendor, up_to_id=None
    )

    expected = {"conversationId": str(conversation_id), "number": 1}
    for stream in (sent, received):
        name, data = stream.skip_events("notification")
        assert (name, {**data, **expected}) == ("message", data)
        assert stream.skip_events("notification") == ("read", {**expected, "reader": "vendor"})


def test_reconnection_repeats_missed_notifications(streams: StreamSite) -> None:
    person = streams.person()
    first, *missed = [streams.notify(person, title=f"Number {number}") for number in range(4)]
    stream = streams.open(person, last_event_id=first)

    assert [stream.next_event()[2] for _ in missed] == missed
    live = streams.notify(person)
    assert stream.next_event()[2] == live


def test_reconnection_after_a_long_absence_asks_for_a_reload(streams: StreamSite) -> None:
    person = streams.person()
    first = streams.notify(person)
    for _ in range(feed.MAX_MISSED + 1):
        streams.notify(person)

    assert streams.open(person, last_event_id=first).next_event()[:2] == ("reload", {})


def test_fourth_stream_replaces_the_oldest(streams: StreamSite) -> None:
    person = streams.person()
    oldest, *others = [streams.open(person) for _ in range(live_streams.MAX_STREAMS_PER_PERSON)]
    newest = streams.open(person)

    assert oldest.next_event()[:2] == ("end", {"reason": "replaced"})
    assert oldest.is_closed()
    written = streams.notify(person)
    assert [stream.next_event()[2] for stream in (*others, newest)] == [written] * 3


def test_stream_ends_with_the_token(streams: StreamSite) -> None:
    stream = streams.open(streams.person(), exp=time.time() - 27)

    assert stream.next_event()[:2] == ("end", {"reason": "token_expired"})


def test_stream_ends_when_the_account_is_suspended(streams: StreamSite) -> None:
    person = streams.person()
    officer = streams.person(role="staff", staff_role="admin")
    stream = streams.open(person)
    now = datetime.now(UTC)
    act = Act(role="admin", now=now, user_id=officer)
    streams.services.database.in_transaction(
        bar_account, user_id=person, status=SUSPENDED, reason="Fraud.", until=None, act=act
    )

    assert stream.skip_events("notification") == ("end", {"reason": "account_changed"})
    assert streams.request(person).status_code == 403


def test_closed_connection_releases_the_place(streams: StreamSite) -> None:
    person = streams.person()
    stream = streams.open(person)
    assert streams.places(person) == 1
    stream.response.raw._fp.fp.raw._sock.close()
    stream.response.close()

    def is_released() -> bool:
        # The process notices a closed connection when it writes.
        streams.notify(person)
        return streams.places(person) == 0

    streams.wait_for(is_released)


@pytest.mark.parametrize("last_event_id", ["17", "not-an-id"])
def test_unknown_last_event_id_is_refused(streams: StreamSite, last_event_id: str) -> None:
    refused = streams.request(streams.person(), last_event_id=last_event_id)

    assert refused.status_code == 422
    assert refused.json()["invalid_params"][0]["name"] == "Last-Event-ID"


def test_stream_needs_a_token(streams: StreamSite) -> None:
    assert requests.get(f"{streams.url}/api/notifications/stream", timeout=SECONDS).status_code == 401


def test_stream_ends_when_the_cache_goes_away(streams: StreamSite, whole_site: ServiceProcesses) -> None:
    person = streams.person()
    stream = streams.open(person)
    whole_site.valkey.stop()
    try:
        assert stream.next_event()[:2] == ("end", {"reason": "interrupted"})
        refused = streams.request(person)
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
    finally:
        whole_site.valkey.start()

    def opens_again() -> bool:
        return streams.request(person).status_code == 200

    streams.wait_for(opens_again)


def test_streams_end_when_the_process_stops(streams: StreamSite, process: tuple[Process, int]) -> None:
    stream = streams.open(streams.person())
    process[0].stop(SECONDS)

    assert stream.next_event()[:2] == ("end", {"reason": "interrupted"})
    assert stream.is_closed()
