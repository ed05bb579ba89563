"""The interface of channels: a message to send, and the outcome."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A notification for one recipient of a channel.

    :ivar delivery_id: the attempt; providers return the id in receipts if they can
    :ivar message_id: the same for all attempts, so that a device or mail program shows a repeated message once
    :ivar recipient: a phone number, an e-mail address, or a device's token
    :ivar device_kind: the kind of device of a push, else none
    :ivar url: the absolute address of the notification's link, if there is one
    :ivar pin: the delivery PIN, for channels that may carry the PIN
    :ivar reply_to: the address for replies to an e-mail, if replies are received
    :ivar unsubscribe_url: the one-click address of a marketing e-mail
    """

    delivery_id: UUID
    message_id: UUID
    kind: str
    title: str
    body: str
    language: str
    recipient: str
    device_kind: str | None
    url: str | None
    pin: str | None
    order_number: str | None
    unsubscribe_url: str | None
    reply_to: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that the provider accepted.

    :ivar provider_message_id: the id in the provider's receipts, if there are any
    :ivar cost_minor: the cost in kobo
    """

    provider_message_id: str | None = None
    cost_minor: int = 0


class DeadRecipientError(Exception):
    """The device's token or subscription is no longer valid."""


class DeferredError(Exception):
    """The provider did nothing and asks for a later attempt, for this recipient only."""


class DeliveryChannel(Protocol):
    """A channel that sends messages through a provider."""

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Send a message once.

        :raises ProviderRefusedError: the provider refused the message and sent nothing
        :raises DeadRecipientError: the device no longer exists
        :raises DeferredError: the provider did nothing and asks for a later attempt
        :raises ProviderUnavailableError: no confirmation; ``may_have_happened`` says whether the message can arrive
        """
