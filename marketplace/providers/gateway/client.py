"""The shared client of the gateway's adapters, with the secret key, paging and one error for invalid responses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient, ProviderRefusedError
from marketplace.providers.gateway.fields import MalformedGatewayDataError

PER_PAGE = 100
_Item = TypeVar("_Item")


class GatewayKeyRefusedError(ProviderUnavailableError):
    """The gateway refuses the service's secret key. Every call fails until an operator replaces the key."""

    def __init__(self, status: int) -> None:
        super().__init__(texts.GATEWAY_KEY_REFUSED)
        self.refused_status = status


def ensure_key_accepted(refusal: ProviderRefusedError) -> None:
    """Check that the gateway refused only this request and not the service's key.

    :raises GatewayKeyRefusedError: the gateway refused the key
    """
    if refusal.status in (401, 403):
        raise GatewayKeyRefusedError(refusal.status) from refusal


class GatewayClient:
    """A client that authenticates to the gateway with the secret key.

    :param tells_refused_key: whether reads raise ``GatewayKeyRefusedError`` if the gateway refuses the key
    """

    def __init__(self, settings: Settings, *, tells_refused_key: bool = False) -> None:
        self._tells_refused_key = tells_refused_key
        self._client = ProviderClient(
            "payment gateway",
            settings.gateway_url.rstrip("/"),
            timeout_seconds=settings.gateway_timeout_seconds,
            headers={"Authorization": f"Bearer {settings.gateway_secret_key}"},
        )

    def post(self, path: str, body: dict[str, Any], read: Callable[[Any], _Item]) -> _Item:
        """Post JSON without retries.

        :param read: parses the ``data`` of the response
        :raises ProviderRefusedError: the gateway refused the request and did nothing
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        answer = self._client.post(path, body)
        with translating_malformed_data():
            return read(answer.get("data") if isinstance(answer, dict) else None)

    def fetch(
        self,
        path: str,
        read: Callable[[Any], _Item],
        params: dict[str, str] | None = None,
        *,
        unknown_statuses: tuple[int, ...],
    ) -> _Item | None:
        """Fetch and parse a resource that may not exist.

        :param read: parses the ``data`` of the response
        :param unknown_statuses: HTTP statuses that mean that the resource does not exist
        :return: none if the resource does not exist
        :raises ProviderUnavailableError: no valid response in time
        """
        answer = self.get(path, params, unknown_statuses=unknown_statuses)
        if answer is None:
            return None
        with translating_malformed_data():
            return read(answer.get("data"))

    def get(
        self, path: str, params: dict[str, str] | None = None, *, unknown_statuses: tuple[int, ...] = ()
    ) -> dict[str, Any] | None:
        """Fetch a resource.

        :param unknown_statuses: HTTP statuses that mean that the resource does not exist
        :return: the full response body; none if the resource does not exist
        :raises ProviderUnavailableError: no valid response in time
        """
        try:
            answer = self._client.get(path, params=params)
        except ProviderRefusedError as error:
            if self._tells_refused_key:
                ensure_key_accepted(error)
            if error.status in unknown_statuses:
                return None
            raise ProviderUnavailableError(texts.GATEWAY_REQUEST_REFUSED) from error
        return answer if isinstance(answer, dict) else {}

    def list_items(self, path: str, params: dict[str, str]) -> list[dict[str, Any]]:
        """Fetch a list of objects.

        :raises ProviderUnavailableError: no valid response in time
        """
        items = (self.get(path, params) or {}).get("data")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ProviderUnavailableError(texts.GATEWAY_UNEXPECTED_RESPONSE)
        return items

    def list_pages(
        self,
        path: str,
        params: dict[str, str],
        read: Callable[[dict[str, Any]], _Item | None],
        *,
        max_pages: int,
        too_many: str,
    ) -> Iterator[list[_Item]]:
        """Fetch a list page by page.

        :param read: parses an object; none leaves the object out
        :param too_many: the error text if the list has more than ``max_pages``
        :raises ProviderUnavailableError: no valid response in time, or more than ``max_pages``
        """
        for number in range(1, max_pages + 1):
            items = self.list_items(path, params | {"perPage": str(PER_PAGE), "page": str(number)})
            with translating_malformed_data():
                page = [parsed for item in items if (parsed := read(item)) is not None]
            yield page
            if len(items) < PER_PAGE:
                return
        raise ProviderUnavailableError(too_many)


@contextmanager
def translating_malformed_data() -> Iterator[None]:
    """Translate malformed data into an invalid response.

    :raises ProviderUnavailableError: the data was malformed
    """
    try:
        yield
    except MalformedGatewayDataError as error:
        raise ProviderUnavailableError(texts.GATEWAY_UNEXPECTED_RESPONSE) from error
