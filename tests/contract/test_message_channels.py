"""Channels of notifications against their stand-ins: wire formats, refusals, faults, and secrets in logs."""

import base64
import hashlib
import hmac
import re
import secrets
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import system_clock
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.delivery.channels import (
    DeadRecipientError,
    DeferredError,
    DeliveryChannel,
    OutgoingMessage,
)
from marketplace.notifications.delivery.senders import make_channels
from marketplace.notifications.devices import FCM, WEB_PUSH
from marketplace.notifications.kinds import CHANNELS, EMAIL, MESSAGING, PUSH, SMS
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging import fcm, mail_server, templates, web_push
from marketplace.providers.messaging.sms import SmsGateway, count_parts
from marketplace.webhooks.envelopes import parse_envelope
from sandbox.providers.inbox.web_push import Subscription, decode
from sandbox.providers.server import ProvidersServer
from tests.contract.sandbox_client import Receiver
from tests.support.probes import closed_port

PHONE, ADDRESS, PIN = "+2348031234567", "amara@students.example", "493817"
SECONDS = 20
# The sandbox's word for each channel, with the kind of device.
STAND_INS = {
    "web_push": (PUSH, WEB_PUSH),
    "fcm": (PUSH, FCM),
    "messaging": (MESSAGING, None),
    "email": (EMAIL, None),
}


class Inbox:
    """The stand-ins over HTTP."""

    def __init__(self, server: ProvidersServer) -> None:
        self.url = server.inbox_url

    def plan(self, channel: str, outcome: str) -> None:
        """Plan the outcome of the next call."""
        answer = requests.post(
            f"{self.url}/sandbox/next", json={"channel": channel, "outcome": outcome}, timeout=SECONDS
        )
        assert answer.status_code == 200, answer.text

    def messages(self, channel: str) -> list[dict[str, Any]]:
        """List the received messages."""
        answer = requests.get(
            f"{self.url}/sandbox/messages", params={"channel": channel}, timeout=SECONDS
        ).json()
        listed: list[dict[str, Any]] = answer["data"]["messages"]
        return listed

    def subscribe(self) -> str:
        """Create a subscription, as devices store it."""
        subscription = requests.post(f"{self.url}/push/subscriptions", timeout=SECONDS).json()
        return orjson.dumps({"endpoint": subscription["endpoint"], **subscription["keys"]}).decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvidersServer]:
    with ProvidersServer(
        "127.0.0.1",
        0,
        tmp_path_factory.mktemp("providers"),
        secret_key="sk_test_x",
        webhook_url="http://127.0.0.1:9/",
        public_base_url="http://127.0.0.1:9",
        messaging_token="of-the-tests-only",
        hang_seconds=0.4,
    ) as running:
        yield running


@pytest.fixture
def inbox(server: ProvidersServer) -> Inbox:
    requests.delete(f"{server.inbox_url}/sandbox/next", timeout=SECONDS).raise_for_status()
    return Inbox(server)


@pytest.fixture
def channel_settings(settings: Settings, server: ProvidersServer) -> Settings:
    return replace(
        settings,
        vapid_private_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode(),
        fcm_credentials=server.fcm_credentials,
        fcm_url=f"{server.inbox_url}/fcm",
        messaging_url=f"{server.inbox_url}/cloud/v23.0",
        messaging_access_token="of-the-tests-only",
        messaging_phone_id="100200300",
        smtp_url=server.smtp_url,
        sms_url=server.sms_url,
    )


@pytest.fixture
def channels(channel_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, DeliveryChannel]:
    for module in (web_push, fcm, templates, mail_server):
        monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    return dict(make_channels(channel_settings, sms=SmsGateway(channel_settings), clock=system_clock))


def message(channel: str, recipient: str, device_kind: str | None = None, **changes: Any) -> OutgoingMessage:
    """Compose a message."""
    given: dict[str, Any] = {
        "delivery_id": uuid4(),
        "message_id": uuid4(),
        "kind": "order_paid",
        "title": "Payment received",
        "body": "Your payment for order CM-1042 is held until delivery.\nShow the PIN at handover.",
        "language": "en",
        "recipient": recipient,
        "device_kind": device_kind,
        "url": "https://app.example/orders/17",
        "pin": None,
        "order_number": None,
        "unsubscribe_url": None,
        "reply_to": None,
        "expires_at": datetime.now(UTC) + timedelta(hours=3),
    }
    return OutgoingMessage(**given | changes)


def recipient_of(stand_in: str, inbox: Inbox) -> str:
    return {
        "web_push": inbox.subscribe() if stand_in == "web_push" else "",
        "fcm": "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZF",
        "messaging": PHONE,
        "email": ADDRESS,
    }[stand_in]


def message_for(stand_in: str, inbox: Inbox, **changes: Any) -> tuple[str, OutgoingMessage]:
    channel, device_kind = STAND_INS[stand_in]
    return channel, message(channel, recipient_of(stand_in, inbox), device_kind, **changes)


def test_all_channels_are_made_from_the_settings(channels: dict[str, DeliveryChannel]) -> None:
    assert channels.keys() == set(CHANNELS)


def test_only_configured_channels_are_made(settings: Settings) -> None:
    bare = replace(settings, smtp_url="", vapid_private_key="", fcm_credentials="", messaging_url="")
    assert make_channels(bare, sms=SmsGateway(bare), clock=system_clock).keys() == {SMS}


def test_browser_decrypts_the_push_and_verifies_the_sender(
    channels: dict[str, DeliveryChannel], channel_settings: Settings, inbox: Inbox
) -> None:
    channel, sent = message_for("web_push", inbox)
    channels[channel].send(sent)

    [received] = inbox.messages("web_push")
    assert received["content"]["payload"] == {
        "id": str(sent.message_id),
        "type": "order_paid",
        "url": "https://app.example/orders/17",
        "title": "Payment received",
        "body": sent.body,
    }
    assert received["content"]["key"] == channel_settings.vapid_public_key
    assert received["content"]["topic"] == sent.message_id.hex


def test_push_for_another_browser_cannot_be_decrypted(
    channels: dict[str, DeliveryChannel], inbox: Inbox
) -> None:
    own, other = (orjson.loads(inbox.subscribe()) for _ in range(2))
    mixed = orjson.dumps({**other, "endpoint": own["endpoint"]}).decode()
    with pytest.raises(ProviderRefusedError):
        channels[PUSH].send(message(PUSH, mixed, WEB_PUSH))


def test_native_push_names_token_text_and_link(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("fcm", inbox)
    receipt = channels[channel].send(sent)

    [received] = inbox.messages("fcm")
    assert received["to"] == sent.recipient
    assert received["content"]["notification"] == {"title": sent.title, "body": sent.body}
    assert received["content"]["data"]["url"] == sent.url
    assert received["content"]["android"]["notification"]["tag"] == str(sent.message_id)
    assert (receipt.provider_message_id or "").startswith("projects/campus-sandbox/messages/")


def test_template_message_carries_title_and_body(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("messaging", inbox)
    receipt = channels[channel].send(sent)

    [received] = inbox.messages("messaging")
    template = received["content"]["template"]
    assert received["to"] == PHONE.removeprefix("+")
    assert template["name"] == "marketplace_update"
    assert [parameter["text"] for parameter in template["components"][0]["parameters"]] == [
        "Payment received",
        "Your payment for order CM-1042 is held until delivery. Show the PIN at handover.",
    ]
    assert template["components"][1]["parameters"] == [{"type": "text", "text": "orders/17"}]
    assert received["content"]["biz_opaque_callback_data"] == str(sent.delivery_id)
    assert receipt.provider_message_id == f"wamid.{received['id']}"


def test_pin_has_a_separate_template(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("messaging", inbox, pin=PIN, order_number="CM-1042")
    channels[channel].send(sent)

    [received] = inbox.messages("messaging")
    template = received["content"]["template"]
    assert template["name"] == "delivery_pin"
    assert [one["text"] for one in template["components"][0]["parameters"]] == ["CM-1042", PIN]


@pytest.mark.parametrize("language", ["en", "pcm"])
def test_sms_with_pin_fits_a_single_part(
    channels: dict[str, DeliveryChannel], server: ProvidersServer, language: str
) -> None:
    sent = message(SMS, PHONE, pin=PIN, order_number="CM-100423", language=language)
    receipt = channels[SMS].send(sent)

    received = server.sms.list_messages("2348031234567")[-1]
    assert PIN in received["text"]
    assert "CM-100423" in received["text"]
    assert count_parts(received["text"]) == 1
    assert receipt.cost_minor == 400


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("\u20ac" * 80, 1),
        ("\u20ac" * 81, 2),
        ("\u1eb9" * 70, 1),
        ("\u1eb9" * 71, 2),
    ],
)
def test_parts_of_an_sms_are_counted(text: str, parts: int) -> None:
    assert count_parts(text) == parts


def test_email_has_text_and_html(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("email", inbox, title="1 < 2 & more", body="Ada's <b>shop</b>")
    channels[channel].send(sent)

    [received] = inbox.messages("email")
    content = received["content"]
    assert content["subject"] == "1 < 2 & more"
    assert content["messageId"].startswith(f"<{sent.message_id}@")
    assert "Ada's <b>shop</b>" in content["text"]
    assert "Open in the app: https://app.example/orders/17" in content["text"]
    assert "Ada&#39;s &lt;b&gt;shop&lt;/b&gt;" in content["html"]
    assert content["listUnsubscribe"] == ""


def test_email_names_the_address_for_replies(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("email", inbox, reply_to="ticket-1@replies.example")
    channels[channel].send(sent)
    assert inbox.messages("email")[0]["content"]["replyTo"] == "ticket-1@replies.example"


def test_email_is_in_the_language_of_the_person(channels: dict[str, DeliveryChannel], inbox: Inbox) -> None:
    channel, sent = message_for("email", inbox, language="pcm")
    channels[channel].send(sent)

    [received] = inbox.messages("email")
    assert "Open am for the app: https://app.example/orders/17" in received["content"]["text"]
    assert "You dey get this e-mail" in received["content"]["text"]


def test_customer_of_the_sandbox_sends_a_picture(inbox: Inbox, server: ProvidersServer) -> None:
    application = Receiver()
    server.inbox.receipts_url, server.inbox.app_secret = application.url, "of-the-tests-only"
    try:
        answer = requests.post(
            f"{inbox.url}/sandbox/customers/2348031234567/messages",
            data={"text": "It came broken", "name": "Amara", "kind": "image"},
            files={"file": ("lamp.jpg", b"a picture", "image/jpeg")},
            timeout=SECONDS,
        )
    finally:
        application.close()

    assert (answer.status_code, answer.json()["applicationStatus"]) == (201, 200)
    [(headers, body)] = application.received
    digest = hmac.digest(b"of-the-tests-only", body, "sha256").hex()
    assert headers["x-hub-signature-256"] == f"sha256={digest}"
    event = parse_envelope(body)
    assert (event.type, event.data["name"]) == ("message.image", "Amara")
    assert event.data["message"]["image"]["caption"] == "It came broken"
    described = requests.get(
        f"{inbox.url}/cloud/v23.0/{event.data['message']['image']['id']}",
        headers={"Authorization": "Bearer of-the-tests-only"},
        timeout=SECONDS,
    ).json()
    assert described["sha256"] == hashlib.sha256(b"a picture").hexdigest()
    assert requests.get(described["url"], timeout=SECONDS).status_code == 401


def test_marketing_email_offers_unsubscribing_by_a_click(
    channels: dict[str, DeliveryChannel], inbox: Inbox
) -> None:
    address = "https://api.example/api/notifications/unsubscribe?token=x"
    channel, sent = message_for("email", inbox, unsubscribe_url=address)
    channels[channel].send(sent)

    [received] = inbox.messages("email")
    assert received["content"]["listUnsubscribe"] == f"<{address}>"
    assert received["content"]["listUnsubscribePost"] == "List-Unsubscribe=One-Click"


@pytest.mark.parametrize("stand_in", ["web_push", "fcm"])
def test_ended_device_is_reported_as_dead(
    channels: dict[str, DeliveryChannel], inbox: Inbox, stand_in: str
) -> None:
    inbox.plan(stand_in, "dead")
    channel, sent = message_for(stand_in, inbox)
    with pytest.raises(DeadRecipientError):
        channels[channel].send(sent)


@pytest.mark.parametrize("stand_in", STAND_INS)
def test_refusal_is_permanent(channels: dict[str, DeliveryChannel], inbox: Inbox, stand_in: str) -> None:
    inbox.plan(stand_in, "refused")
    channel, sent = message_for(stand_in, inbox)
    with pytest.raises(ProviderRefusedError):
        channels[channel].send(sent)
    assert inbox.messages(stand_in) == []


@pytest.mark.parametrize("stand_in", ["web_push", "fcm", "messaging"])
def test_rate_limit_certainly_sent_nothing(
    channels: dict[str, DeliveryChannel], inbox: Inbox, stand_in: str
) -> None:
    inbox.plan(stand_in, "limited")
    channel, sent = message_for(stand_in, inbox)
    with pytest.raises(ProviderUnavailableError) as caught:
        channels[channel].send(sent)
    assert not caught.value.may_have_happened


@pytest.mark.parametrize("outcome", ["limited", "error"])
def test_deferred_mail_is_repeated_later(
    channels: dict[str, DeliveryChannel], inbox: Inbox, outcome: str
) -> None:
    inbox.plan("email", outcome)
    channel, sent = message_for("email", inbox)
    with pytest.raises(DeferredError):
        channels[channel].send(sent)


@pytest.mark.parametrize("stand_in", STAND_INS)
def test_lost_response_leaves_the_outcome_open(
    channels: dict[str, DeliveryChannel], inbox: Inbox, stand_in: str
) -> None:
    inbox.plan(stand_in, "lost")
    channel, sent = message_for(stand_in, inbox)
    with pytest.raises(ProviderUnavailableError) as caught:
        channels[channel].send(sent)
    assert caught.value.may_have_happened
    assert len(inbox.messages(stand_in)) == 1


@pytest.mark.parametrize("stand_in", STAND_INS)
def test_unreachable_provider_certainly_sent_nothing(
    channel_settings: Settings, inbox: Inbox, stand_in: str
) -> None:
    down = f"127.0.0.1:{closed_port()}"
    unreachable = replace(
        channel_settings, fcm_url=f"http://{down}", messaging_url=f"http://{down}", smtp_url=f"smtp://{down}"
    )
    channels = make_channels(unreachable, sms=SmsGateway(unreachable), clock=system_clock)
    channel, sent = message_for(stand_in, inbox)
    if stand_in == "web_push":
        subscription = orjson.loads(sent.recipient) | {"endpoint": f"http://{down}/send/x"}
        sent = replace(sent, recipient=orjson.dumps(subscription).decode())
    with pytest.raises(ProviderUnavailableError) as caught:
        channels[channel].send(sent)
    assert not caught.value.may_have_happened


@pytest.mark.parametrize("outcome", ["sent", "refused", "lost", "error"])
@pytest.mark.parametrize("stand_in", STAND_INS)
def test_neither_recipient_nor_pin_reaches_logs_and_errors(
    channels: dict[str, DeliveryChannel], inbox: Inbox, stand_in: str, outcome: str
) -> None:
    inbox.plan(stand_in, outcome)
    channel, sent = message_for(stand_in, inbox, pin=PIN, order_number="CM-1042")
    failure = ""
    with capture_logs() as logs:
        try:
            channels[channel].send(sent)
        except Exception as error:  # noqa: BLE001 - any error's text is searched
            failure = "".join(traceback.format_exception(error))
    # The stand-in runs in the same process and logs the paths of its requests.
    own = [entry for entry in logs if not str(entry["event"]).startswith("sandbox")]
    written = f"{own} {failure}"
    secret_parts = [PIN, "8031234567", ADDRESS, "APA91b"]
    if stand_in == "web_push":
        secret_parts += re.findall(r"send/(\w+)", sent.recipient)
    assert [part for part in secret_parts if part in written] == []


def test_own_decryption_matches_the_example_of_the_standard() -> None:
    """RFC 8291, section 5 and appendix A."""
    private = int.from_bytes(decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
    subscription = Subscription(
        "x",
        "https://push.example/x",
        ec.derive_private_key(private, ec.SECP256R1()),
        decode("BTBZMqHH6r4Tts7J_aSIgg"),
    )
    body = decode(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
        "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    assert subscription.decrypt(body) == b"When I grow up, I want to be a watermelon"
