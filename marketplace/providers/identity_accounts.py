"""Deletion of accounts at the identity provider, by its administration interface."""

from typing import Protocol
from uuid import UUID

from marketplace.infra.settings import Settings
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_NOT_FOUND = 404


class IdentityAccounts(Protocol):
    """The accounts of the identity provider."""

    def delete(self, user_id: UUID) -> None:
        """Delete an account. A missing account is not an error."""


class HttpIdentityAccounts:
    """The administration interface of common providers: ``DELETE <base>/users/<id>`` with a bearer key."""

    def __init__(self, settings: Settings) -> None:
        self._client = ProviderClient(
            "identity provider",
            settings.identity_admin_url.rstrip("/"),
            timeout_seconds=10.0,
            headers={"Authorization": f"Bearer {settings.identity_admin_key}"},
        )

    def delete(self, user_id: UUID) -> None:
        """Delete an account. A missing account is not an error.

        :raises ProviderRefusedError: the provider refused the request, for example because of the key
        :raises ProviderUnavailableError: no valid response in time
        """
        try:
            self._client.delete(f"/users/{user_id}")
        except ProviderRefusedError as error:
            if error.status != _NOT_FOUND:
                raise


def make_identity_accounts(settings: Settings) -> IdentityAccounts | None:
    """Create the adapter, or return none if no administration interface is configured."""
    return HttpIdentityAccounts(settings) if settings.identity_admin_url else None
