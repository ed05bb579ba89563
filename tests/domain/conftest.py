"""Fixtures of the domain's tests."""

from tests.support.gateway import gateway, gateway_server

__all__ = ["gateway", "gateway_server"]
