"""Fixtures of the domain's tests."""

from tests.support.gateway import gateway

__all__ = ["gateway"]
