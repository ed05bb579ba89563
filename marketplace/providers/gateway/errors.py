"""Errors of the payment gateway that callers tell apart."""

from marketplace.kernel.errors import ProviderUnavailableError


class GatewayKeyRefusedError(ProviderUnavailableError):
    """The gateway refuses our secret key. Every call fails until an operator replaces the key."""

    def __init__(self, status: int) -> None:
        super().__init__("The payment gateway refused our key.")
        self.refused_status = status


class MalformedGatewayDataError(Exception):
    """A field of the gateway's data is missing or of the wrong type: it can never be applied."""
