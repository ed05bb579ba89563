"""The gateway's HTTP API as its adapters share it: the secret key, pages, and one error for unusable answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderClient, ProviderRefusedError
from marketplace.providers.gateway.fields import MalformedGatewayDataError

PER_PAGE = 100
UNEXPECTED_RESPONSE = "The payment gateway did not answer as it should. Try again."
_Item = TypeVar("_Item")


class GatewayKeyRefusedError(ProviderUnavailableError):
    """The gateway refuses the service's secret key. Every call fails until an operator replaces the key."""

    def __init__(self, status: int) -> None:
        super().__init__("The payment gateway refused our key.")
        self.refused_status = status


def ensure_key_accepted(refusal: ProviderRefusedError) -> None:
    """Tell a refused key from a refused request: a key that is refused once is refused for every request.

    :raises GatewayKeyRefusedError: the gateway refused our key
    """
    if refusal.status in (401, 403):
        raise GatewayKeyRefusedError(refusal.status) from refusal


class GatewayClient:
    """Calls the gateway with the secret key.

    :param tells_refused_key: whether reads raise ``GatewayKeyRefusedError`` where the key is refused
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
        """Post JSON once.

        :param read: makes the result of the answer's ``data``
        :raises ProviderRefusedError: the gateway refused: nothing was done
        :raises ProviderUnavailableError: no usable answer in time: whether it was done is unknown
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
        """Read a resource that may not exist.

        :param read: makes the result of the answer's ``data``
        :param unknown_statuses: statuses by which the gateway says that there is no such resource
        :raises ProviderUnavailableError: no usable answer in time
        """
        answer = self.get(path, params, unknown_statuses=unknown_statuses)
        if answer is None:
            return None
        with translating_malformed_data():
            return read(answer.get("data"))

    def get(
        self, path: str, params: dict[str, str] | None = None, *, unknown_statuses: tuple[int, ...] = ()
    ) -> dict[str, Any] | None:
        """Read a resource.

        :param unknown_statuses: statuses by which the gateway says that there is no such resource
        :return: the whole answer; none if there is no such resource
        :raises ProviderUnavailableError: no usable answer in time
        """
        try:
            answer = self._client.get(path, params=params)
        except ProviderRefusedError as error:
            if self._tells_refused_key:
                ensure_key_accepted(error)
            if error.status in unknown_statuses:
                return None
            raise ProviderUnavailableError("The payment gateway refused to answer. Try again.") from error
        return answer if isinstance(answer, dict) else {}

    def list_items(self, path: str, params: dict[str, str]) -> list[dict[str, Any]]:
        """Read a list of objects.

        :raises ProviderUnavailableError: no usable answer in time
        """
        items = (self.get(path, params) or {}).get("data")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ProviderUnavailableError(UNEXPECTED_RESPONSE)
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
        """Read a list page by page.

        :param read: makes an item of an object, or none to leave it out
        :param too_many: the error's text where there are more than ``max_pages``
        :raises ProviderUnavailableError: no usable answer in time, or more pages than there may be
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
    """Turn data that can't be read into an answer that can't be used.

    :raises ProviderUnavailableError: the data was malformed
    """
    try:
        yield
    except MalformedGatewayDataError as error:
        raise ProviderUnavailableError(UNEXPECTED_RESPONSE) from error
