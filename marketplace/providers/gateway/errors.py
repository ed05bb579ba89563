"""Errors of the payment gateway that callers tell apart."""

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError

_KEY_REFUSED_STATUSES = (401, 403)


class GatewayKeyRefusedError(ProviderUnavailableError):
    """The gateway refuses the service's secret key. Every call fails until an operator replaces the key."""

    def __init__(self, status: int) -> None:
        super().__init__("The payment gateway refused our key.")
        self.refused_status = status


class MalformedGatewayDataError(Exception):
    """A field of the gateway's data is missing or of the wrong type: it can never be applied."""


def ensure_key_accepted(refusal: ProviderRefusedError) -> None:
    """Tell a refused key from a refused request: a key that is refused once is refused for every request.

    :raises GatewayKeyRefusedError: the gateway refused our key
    """
    if refusal.status in _KEY_REFUSED_STATUSES:
        raise GatewayKeyRefusedError(refusal.status) from refusal
