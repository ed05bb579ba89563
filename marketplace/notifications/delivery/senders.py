"""The channels: push, template messages, SMS and e-mail, each with the provider's client."""

import re
from collections.abc import Mapping
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
from jinja2 import Environment, Template, select_autoescape

from marketplace.infra.settings import Settings
from marketplace.kernel.clock import Clock
from marketplace.notifications import texts
from marketplace.notifications.delivery.channels import (
    DeadRecipientError,
    DeferredError,
    DeliveryChannel,
    OutgoingMessage,
    SentMessage,
)
from marketplace.notifications.devices import WEB_PUSH
from marketplace.notifications.kinds import EMAIL, KINDS, MESSAGING, PUSH, SMS
from marketplace.notifications.phrases import render, say
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.mail_server import MailServer
from marketplace.providers.messaging.sms import SmsGateway, count_parts
from marketplace.providers.messaging.templates import MessagingClient
from marketplace.providers.messaging.web_push import WebPushClient

if TYPE_CHECKING:
    from marketplace.providers.messaging.fcm import FcmClient

# Approved templates at the messaging provider, with their placeholders in order.
PIN_TEMPLATE, UPDATE_TEMPLATE = "delivery_pin", "marketplace_update"
# The provider has no language for Pidgin. The placeholders carry the translated text.
_TEMPLATE_LANGUAGES = {"en": "en", "pcm": "en"}
_GONE_STATUSES = frozenset({404, 410})
_FIRST_PERMANENT_MAIL_STATUS = 500
_MAX_PUSH_BODY = 1_000
_MAX_SMS_LENGTH = 300


class PushSender:
    """Push messages to browsers and native apps. They never carry the PIN."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._web_push = WebPushClient(settings) if settings.vapid_private_key else None
        self._fcm = _make_fcm_client(settings) if settings.fcm_credentials else None
        self._clock = clock

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Send a message to a device.

        :raises DeadRecipientError: the device no longer exists
        :raises ProviderRefusedError: the provider refused the message, or its kind of device is not configured
        """
        try:
            if message.device_kind == WEB_PUSH:
                return self._send_to_browser(message)
            return self._send_to_app(message)
        except ProviderRefusedError as error:
            if error.status in _GONE_STATUSES:
                raise DeadRecipientError from None
            raise

    def _send_to_browser(self, message: OutgoingMessage) -> SentMessage:
        if self._web_push is None:
            raise ProviderRefusedError("push service", 501, "")
        self._web_push.send(
            **orjson.loads(message.recipient),
            content=orjson.dumps(_push_data(message) | {"title": message.title, "body": _cut(message.body)}),
            ttl_seconds=self._remaining_seconds(message),
            topic=message.message_id.hex,
            is_urgent=not KINDS[message.kind].waits_for_morning,
        )
        return SentMessage()

    def _send_to_app(self, message: OutgoingMessage) -> SentMessage:
        if self._fcm is None:
            raise ProviderRefusedError("native push service", 501, "")
        name = self._fcm.send(
            token=message.recipient,
            title=message.title,
            body=_cut(message.body),
            data=_push_data(message),
            ttl_seconds=self._remaining_seconds(message),
            tag=str(message.message_id),
            is_urgent=not KINDS[message.kind].waits_for_morning,
        )
        return SentMessage(provider_message_id=name)

    def _remaining_seconds(self, message: OutgoingMessage) -> int:
        return max(0, int((message.expires_at - self._clock()).total_seconds()))


def _make_fcm_client(settings: Settings) -> "FcmClient":
    from marketplace.providers.messaging.fcm import FcmClient  # noqa: PLC0415 - imports much

    return FcmClient(settings)


def _push_data(message: OutgoingMessage) -> dict[str, str]:
    return {"id": str(message.message_id), "type": message.kind, "url": message.url or ""}


def _cut(body: str) -> str:
    return body if len(body) <= _MAX_PUSH_BODY else f"{body[: _MAX_PUSH_BODY - 1]}\u2026"


class MessagingSender:
    """Template messages of the messaging provider."""

    def __init__(self, settings: Settings) -> None:
        self._client = MessagingClient(settings)

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Send a message to a phone number."""
        path = urlsplit(message.url).path.lstrip("/") if message.url else ""
        if message.pin is not None:
            template, parameters = PIN_TEMPLATE, [message.order_number or "", message.pin]
        else:
            template, parameters = UPDATE_TEMPLATE, [message.title, message.body]
        message_id = self._client.send_template(
            phone=message.recipient,
            template=template,
            language=_TEMPLATE_LANGUAGES[message.language],
            parameters=parameters,
            button=path or "notifications",
            delivery_id=message.delivery_id,
        )
        return SentMessage(provider_message_id=message_id)


class SmsSender:
    """SMS. The cost is the number of parts, each at the configured price."""

    def __init__(self, settings: Settings, gateway: SmsGateway) -> None:
        self._gateway = gateway
        self._price_minor = settings.sms_price_kobo

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Send a message to a phone number."""
        if message.pin is not None:
            template = texts.PIN_SMS[message.language]
            text = template.format(order_number=message.order_number, pin=message.pin)
        else:
            text = texts.SMS_TEXT.format(title=message.title, body=message.body)[:_MAX_SMS_LENGTH]
        sent = self._gateway.send(phone=message.recipient, text=text)
        return SentMessage(sent.message_id, cost_minor=count_parts(text) * self._price_minor)


class EmailSender:
    """E-mails with a text and an HTML part from one template."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._server = MailServer(settings.smtp_url)
        self._sender = settings.mail_sender
        self._preferences_url = f"{settings.client_url}/account/notifications"
        self._clock = clock

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Send an e-mail to a person."""
        mail = compose_email(
            message, sender=self._sender, preferences_url=self._preferences_url, now=self._clock()
        )
        try:
            self._server.send(mail, sender=self._sender, recipient=message.recipient)
        except ProviderRefusedError as error:
            if error.status < _FIRST_PERMANENT_MAIL_STATUS:
                raise DeferredError from None
            raise
        return SentMessage()


def compose_email(
    message: OutgoingMessage, *, sender: str, preferences_url: str, now: datetime
) -> EmailMessage:
    """Compose an e-mail. The id is the same for each attempt, so that mail programs hide duplicates."""
    mail = EmailMessage()
    mail["From"] = f"Campus Marketplace <{sender}>"
    mail["To"] = message.recipient
    mail["Subject"] = " ".join(message.title.split())
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message.message_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    if message.reply_to:
        mail["Reply-To"] = message.reply_to
    if message.unsubscribe_url:
        # RFC 8058: mail programs unsubscribe with one click, by a POST to this address.
        mail["List-Unsubscribe"] = f"<{message.unsubscribe_url}>"
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    values = {
        "message": message,
        "preferences_url": preferences_url,
        "open_label": render(say(texts.EMAIL_OPEN), message.language),
        "footer": render(say(texts.EMAIL_FOOTER), message.language),
        "preferences_label": render(say(texts.EMAIL_PREFERENCES), message.language),
    }
    html = _email_template().render(values)
    mail.set_content(_text_of(html))
    mail.add_alternative(html, subtype="html")
    return mail


@cache
def _email_template() -> Template:
    source = files("marketplace.notifications.delivery").joinpath("email.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=select_autoescape(default_for_string=True), trim_blocks=True)
    return environment.from_string(source)


_MARKED_PART = re.compile(r"<!--text-->(.*?)<!--/text-->", re.DOTALL)
_LINK = re.compile(r'<a [^>]*href="([^"]*)"[^>]*>([^<]*)</a>')
_TAG = re.compile(r"<[^>]*>")


def _text_of(html: str) -> str:
    """Return the text of the template's marked parts, with the addresses of links."""
    paragraphs = []
    for part in _MARKED_PART.findall(html):
        linked = _LINK.sub(r"\2: \1", part)
        plain = _TAG.sub("", linked)
        for entity, character in (
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&#39;", "'"),
            ("&#34;", '"'),
            ("&amp;", "&"),
        ):
            plain = plain.replace(entity, character)
        paragraphs.append(" ".join(plain.split()))
    return "\n\n".join(paragraphs) + "\n"


def make_channels(settings: Settings, *, sms: SmsGateway, clock: Clock) -> Mapping[str, DeliveryChannel]:
    """Create the configured channels by name. No delivery is planned for other channels."""
    channels: dict[str, DeliveryChannel] = {SMS: SmsSender(settings, sms)}
    if settings.vapid_private_key or settings.fcm_credentials:
        channels[PUSH] = PushSender(settings, clock)
    if settings.messaging_url:
        channels[MESSAGING] = MessagingSender(settings)
    if settings.smtp_url:
        channels[EMAIL] = EmailSender(settings, clock)
    return channels
