"""The hook that asks the platform of the installation for more workers."""

from marketplace.infra.settings import Settings
from marketplace.providers.client import ProviderClient

_TIMEOUT_SECONDS = 5.0


class ScaleHook:
    """The adapter of the hook. The same request can be repeated."""

    def __init__(self, settings: Settings) -> None:
        self._client = (
            ProviderClient("scale hook", settings.scale_hook_url, timeout_seconds=_TIMEOUT_SECONDS)
            if settings.scale_hook_url
            else None
        )

    def request_workers(self, queue: str, *, workers: int) -> bool:
        """Request a number of workers for a queue, and return whether a hook is configured.

        :raises ProviderRefusedError: the platform refused the request
        :raises ProviderUnavailableError: no answer in time
        """
        if self._client is None:
            return False
        self._client.post_without_reply("", {"queue": queue, "workers": workers})
        return True
