"""Settings and services that all parts of the identity provider share."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit
from uuid import UUID

from flask import current_app

from marketplace.kernel.clock import Clock
from marketplace.kernel.origins import AllowedOrigins
from sandbox.providers.fields import is_web_address
from sandbox.providers.store import Store

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The running identity provider.

    :param issuer: the provider's own address, the ``iss`` of tokens
    :param audience: the ``aud`` of access tokens
    :param application_url: the address of the application; redirects may go there or to this machine
    :param allowed_origins: the browser pages that may read responses
    :param admin_key: the bearer key of the administration; empty refuses every request
    :param deleted_accounts: accounts that cannot sign in until the next start
    """

    issuer: str
    audience: str
    application_url: str
    store: Store
    clock: Clock
    allowed_origins: AllowedOrigins = field(default_factory=lambda: AllowedOrigins(()))
    admin_key: str = ""
    deleted_accounts: set[UUID] = field(default_factory=set)

    def may_lead_to(self, address: str) -> bool:
        """Return whether redirects to an address are allowed: only to the application or to this machine."""
        if not is_web_address(address):
            return False
        target, application = urlsplit(address), urlsplit(self.application_url)
        same_origin = (target.scheme, target.netloc) == (application.scheme, application.netloc)
        return same_origin or target.hostname in LOOPBACK_HOSTS


def current_identity() -> Identity:
    """Return the identity provider of the current request."""
    identity = current_app.extensions["sandbox_identity"]
    if not isinstance(identity, Identity):
        raise TypeError("the application has no identity provider")
    return identity
