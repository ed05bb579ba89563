"""Settings and services that all parts of the gateway share."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from flask import current_app

from marketplace.kernel.clock import Clock
from sandbox.providers.store import Store

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

# The real schedule uses minutes and hours. At this scale the first retries come after 3 s.
DEFAULT_RETRY_SCALE = 1 / 60
# Longer than any client's time-out, but short enough to release the threads.
DEFAULT_HANG_SECONDS = 30.0
DEFAULT_SETTLE_SECONDS = 2.0
# The real gateway's time-out for a webhook's response.
DEFAULT_WEBHOOK_TIMEOUT_SECONDS = 5.0

FeeBearer = Literal["platform", "customer"]
FEE_BEARERS: tuple[FeeBearer, ...] = ("platform", "customer")


class InvalidSettingsError(ValueError):
    """A setting of the sandbox is missing or out of range. The message names the setting."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """The gateway's settings.

    :param name: the ``<name>`` in the header ``x-<name>-signature``
    :param secret_key: authenticates callers and signs webhooks
    :param webhook_url: destination of events
    :param public_url: the gateway's address for clients and browsers
    :param fee_bearer: pays the fee; ``customer`` adds the fee to the charged amount
    :param retry_scale: share of the real delays between deliveries of a webhook
    :param settle_seconds: delay between a transfer or refund and its result
    :param hang_seconds: duration of a call with the outcome ``timeout``
    :param webhook_timeout_seconds: maximum wait for a webhook's response
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
            raise InvalidSettingsError("GATEWAY_NAME must consist of lower-case letters, digits and hyphens")
        if not self.secret_key:
            raise InvalidSettingsError("GATEWAY_SECRET_KEY must be set; sandbox keys start with sk_test_")
        if self.fee_bearer not in FEE_BEARERS:
            raise InvalidSettingsError(f"GATEWAY_FEE_BEARER must be one of {', '.join(FEE_BEARERS)}")
        if not 0.0001 <= self.retry_scale <= 1:
            raise InvalidSettingsError("SANDBOX_RETRY_SCALE must be a number from 0.0001 to 1")
        if not 0 <= self.settle_seconds <= 3_600:
            raise InvalidSettingsError("SANDBOX_SETTLE_SECONDS must be a number from 0 to 3600")
        if not 0.1 <= self.hang_seconds <= 120:
            raise InvalidSettingsError("SANDBOX_HANG_SECONDS must be a number from 0.1 to 120")
        if not 0.1 <= self.webhook_timeout_seconds <= 60:
            raise InvalidSettingsError("the webhook time-out must be from 0.1 to 60 seconds")


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The running gateway.

    :param wake: makes the background thread check for due work
    :param stopping: set when the server stops, which ends hanging calls
    """

    settings: GatewaySettings
    store: Store
    clock: Clock
    wake: Callable[[], None]
    stopping: threading.Event


def current_gateway() -> Gateway:
    """Return the gateway of the current request."""
    gateway = current_app.extensions["sandbox_gateway"]
    if not isinstance(gateway, Gateway):
        raise TypeError("the application has no gateway")
    return gateway
