"""What every part of the gateway needs, made once by the server."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from flask import current_app

from marketplace.kernel.clock import Clock
from sandbox.providers.store import Store

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

# The real schedule is in minutes and hours; at this scale the first retries come after 3 s.
DEFAULT_RETRY_SCALE = 1 / 60
# Long enough to outlast any client that keeps a time-out, short enough not to hold threads for ever.
DEFAULT_HANG_SECONDS = 30.0
DEFAULT_SETTLE_SECONDS = 2.0
# How long the real gateway waits for a webhook's answer before it counts the try as failed.
DEFAULT_WEBHOOK_TIMEOUT_SECONDS = 5.0

FeeBearer = Literal["platform", "customer"]
FEE_BEARERS: tuple[FeeBearer, ...] = ("platform", "customer")


class InvalidSettingsError(ValueError):
    """A setting of the sandbox is missing or out of range; the message names it."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """How the gateway behaves.

    :param name: the ``<name>`` of the header ``x-<name>-signature``
    :param secret_key: what callers authenticate with, and what webhooks are signed with
    :param webhook_url: where events are posted
    :param public_url: the gateway's own address as clients and browsers see it
    :param fee_bearer: who pays the fee; ``customer`` adds it to the amount that is charged
    :param retry_scale: share of the real waiting times between the tries of a webhook
    :param settle_seconds: from a transfer or refund to its result
    :param hang_seconds: how long a call with the outcome ``timeout`` stays unanswered
    :param webhook_timeout_seconds: how long a webhook may wait for its answer
    """

    name: str
    secret_key: str
    webhook_url: str
    public_url: str
    fee_bearer: FeeBearer = "platform"
    retry_scale: float = DEFAULT_RETRY_SCALE
    settle_seconds: float = DEFAULT_SETTLE_SECONDS
    hang_seconds: float = DEFAULT_HANG_SECONDS
    webhook_timeout_seconds: float = DEFAULT_WEBHOOK_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidSettingsError("GATEWAY_NAME has to be lower-case letters, digits and hyphens")
        if not self.secret_key:
            raise InvalidSettingsError("GATEWAY_SECRET_KEY has to be set; in the sandbox it starts sk_test_")
        if self.fee_bearer not in FEE_BEARERS:
            raise InvalidSettingsError(f"GATEWAY_FEE_BEARER has to be one of {', '.join(FEE_BEARERS)}")
        if not 0.0001 <= self.retry_scale <= 1:
            raise InvalidSettingsError("SANDBOX_RETRY_SCALE has to be a number from 0.0001 to 1")
        if not 0 <= self.settle_seconds <= 3_600:
            raise InvalidSettingsError("SANDBOX_SETTLE_SECONDS has to be a number from 0 to 3600")
        if not 0.1 <= self.hang_seconds <= 120:
            raise InvalidSettingsError("SANDBOX_HANG_SECONDS has to be a number from 0.1 to 120")
        if not 0.1 <= self.webhook_timeout_seconds <= 60:
            raise InvalidSettingsError("the time-out of webhooks has to be from 0.1 to 60 seconds")


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The running gateway.

    :param wake: tells the background thread that something may be due
    :param stopping: set when the server stops, so that nothing hangs on
    """

    settings: GatewaySettings
    store: Store
    clock: Clock
    wake: Callable[[], None]
    stopping: threading.Event


def current_gateway() -> Gateway:
    """Return the gateway that the request at hand is for."""
    gateway = current_app.extensions["sandbox_gateway"]
    if not isinstance(gateway, Gateway):
        raise TypeError("the application has no gateway")
    return gateway
