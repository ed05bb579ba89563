"""The inbox's state: received messages, subscriptions, planned outcomes and receipts."""

import hashlib
import hmac
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import orjson
import structlog
import urllib3
from flask import current_app

from marketplace.kernel.clock import iso, system_clock
from sandbox.providers.inbox.web_push import Subscription

# "media" stands for the files of customers' messages, which the application fetches.
Channel = Literal["web_push", "fcm", "messaging", "email", "media"]
CHANNELS: tuple[Channel, ...] = ("web_push", "fcm", "messaging", "email", "media")
# "lost": accepted, but the response comes too late; "duplicate": receipts arrive twice; "late": receipts arrive late;
# "silent": no receipts; "dead": the device's token is no longer valid.
Outcome = Literal[
    "sent", "error", "refused", "limited", "timeout", "lost", "dead", "duplicate", "late", "silent"
]
OUTCOMES: tuple[Outcome, ...] = (
    *("sent", "error", "refused", "limited", "timeout"),
    *("lost", "dead", "duplicate", "late", "silent"),
)
MAXIMUM_OUTCOMES = 1_000
_LATEST = 1_000
_LATE_SECONDS = 2.0
_RECEIPT_SECONDS = 5.0
_WINDOW_SECONDS = 24 * 3600

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class Inbox:
    """The running inbox. Messages, subscriptions and planned outcomes live in memory.

    :param hang_seconds: duration of a call with the outcome ``timeout`` or ``lost``
    :param stopping: set when the server stops, which ends hanging calls
    :param service_account: the service account of Firebase Cloud Messaging whose key signs requests for tokens
    :param access_token: the access token of the messaging provider; empty accepts any token
    :param receipts_url: the application's webhook of the messaging provider
    :param app_secret: the secret that signs webhooks; empty sends them unsigned
    :param functions_url: the application's functions, which receive replies by e-mail
    :param functions_key: the key of these functions
    """

    hang_seconds: float
    stopping: threading.Event
    service_account: Mapping[str, str]
    access_token: str
    receipts_url: str
    app_secret: str
    functions_url: str
    functions_key: str
    url: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: defaultdict[str, deque[Outcome]] = field(default_factory=lambda: defaultdict(deque))
    _messages: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _calls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _subscriptions: dict[str, Subscription] = field(default_factory=dict)
    _media: dict[str, "MediaFile"] = field(default_factory=dict)
    _customers: dict[str, float] = field(default_factory=dict)
    _tokens: set[str] = field(default_factory=set)
    _pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(timeout=_RECEIPT_SECONDS, retries=False)
    )

    def plan(self, channel: Channel, outcome: Outcome, count: int) -> bool:
        """Plan an outcome for the next calls of a channel, and return whether the plan had room."""
        with self._lock:
            if len(self._next[channel]) + count > MAXIMUM_OUTCOMES:
                return False
            self._next[channel].extend([outcome] * count)
            return True

    def take_outcome(self, channel: Channel) -> Outcome:
        """Count a call and take the next planned outcome, ``sent`` by default."""
        with self._lock:
            self._calls[channel] += 1
            planned = self._next[channel]
            return planned.popleft() if planned else "sent"

    def end_plans(self, channel: Channel) -> None:
        """Drop the unused planned outcomes of a channel."""
        with self._lock:
            self._next[channel].clear()

    def reset(self) -> None:
        """Drop unused planned outcomes, received messages and files."""
        with self._lock:
            self._next.clear()
            self._messages.clear()
            self._media.clear()
            self._customers.clear()
            self._calls.clear()

    def keep(self, channel: Channel, recipient: str, content: Mapping[str, Any]) -> str:
        """Store a message and return the id."""
        message_id = uuid4().hex
        with self._lock:
            self._messages.append(
                {
                    "id": message_id,
                    "channel": channel,
                    "to": recipient,
                    "at": iso(system_clock()),
                    "content": content,
                }
            )
        return message_id

    def list_messages(self, *, channel: str | None = None, to: str | None = None) -> list[Mapping[str, Any]]:
        """List the latest messages, oldest first, of a channel or recipient if given."""
        with self._lock:
            return [
                message
                for message in self._messages
                if channel in (None, message["channel"]) and to in (None, message["to"])
            ]

    def calls(self) -> dict[str, int]:
        """Return the number of calls by channel."""
        with self._lock:
            return dict(self._calls)

    def subscribe(self) -> Subscription:
        """Create the subscription of a simulated browser."""
        subscription = Subscription.create(f"{self.url}/push")
        with self._lock:
            self._subscriptions[subscription.id] = subscription
        return subscription

    def find_subscription(self, subscription_id: str) -> Subscription | None:
        """Return a subscription, or none after its end."""
        with self._lock:
            return self._subscriptions.get(subscription_id)

    def end_subscription(self, subscription_id: str) -> None:
        """End a subscription, as a browser does when a person withdraws the permission."""
        with self._lock:
            self._subscriptions.pop(subscription_id, None)

    def issue_token(self) -> str:
        """Issue an access token for Firebase Cloud Messaging."""
        token = f"ya29.{uuid4().hex}"
        with self._lock:
            self._tokens.add(token)
        return token

    def knows_token(self, token: str) -> bool:
        """Return whether an access token was issued here."""
        with self._lock:
            return token in self._tokens

    def send_receipts(self, message_id: str, recipient: str, callback_data: object, outcome: Outcome) -> None:
        """Send the receipts of a message to the application, in a thread of their own."""
        if outcome == "silent" or not self.receipts_url:
            return
        statuses = ["sent", "delivered"] * (2 if outcome == "duplicate" else 1)
        delay = _LATE_SECONDS if outcome == "late" else 0.0
        threading.Thread(
            target=self._post_receipts,
            args=(message_id, recipient, callback_data, statuses, delay),
            name="sandbox-receipts",
            daemon=True,
        ).start()

    def _post_receipts(
        self, message_id: str, recipient: str, callback_data: object, statuses: list[str], delay: float
    ) -> None:
        self.stopping.wait(delay)
        for status in statuses:
            item = {
                "id": message_id,
                "status": status,
                "timestamp": str(int(time.time())),
                "recipient_id": recipient,
                "biz_opaque_callback_data": callback_data,
            }
            try:
                self.post_webhook({"statuses": [item]})
            except urllib3.exceptions.HTTPError as error:
                _log.info("receipt not delivered", error=type(error).__name__)

    def post_webhook(self, value: dict[str, Any]) -> int:
        """Post a signed envelope to the application, and return the status of the response.

        :raises urllib3.exceptions.HTTPError: no response in time
        """
        value = {"messaging_product": "whatsapp", **value}
        changes = [{"field": "messages", "value": value}]
        body = orjson.dumps({"object": "whatsapp_business_account", "entry": [{"changes": changes}]})
        headers = {"Content-Type": "application/json"}
        if self.app_secret:
            digest = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Hub-Signature-256"] = f"sha256={digest}"
        return self._pool.request("POST", self.receipts_url, body=body, headers=headers).status

    def note_customer(self, number: str) -> None:
        """Record that a customer wrote to the application."""
        with self._lock:
            self._customers[number] = time.monotonic()

    def may_write_to(self, number: str) -> bool:
        """Return whether the customer wrote within the last 24 hours."""
        with self._lock:
            written_at = self._customers.get(number)
        return written_at is not None and time.monotonic() - written_at < _WINDOW_SECONDS

    def post_reply(self, body: dict[str, str]) -> tuple[int, bytes]:
        """Post a reply by e-mail to the application, and return status and body of the response.

        :raises urllib3.exceptions.HTTPError: no response in time
        """
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.functions_key}"}
        response = self._pool.request(
            "POST", f"{self.functions_url}/inbound-email", body=orjson.dumps(body), headers=headers
        )
        return response.status, response.data

    def keep_media(self, content: bytes, content_type: str) -> str:
        """Store the file of a customer's message and return the id."""
        media_id = str(uuid4().int % 10**16)
        with self._lock:
            self._media[media_id] = MediaFile(content, content_type)
        return media_id

    def find_media(self, media_id: str) -> "MediaFile | None":
        """Return the file of a customer's message, or none for an unknown id."""
        with self._lock:
            return self._media.get(media_id)


@dataclass(frozen=True)
class MediaFile:
    """The file of a customer's message."""

    content: bytes
    content_type: str


def current_inbox() -> Inbox:
    """Return the inbox of the current request."""
    inbox = current_app.extensions["sandbox_inbox"]
    if not isinstance(inbox, Inbox):
        raise TypeError("the application has no inbox")
    return inbox
