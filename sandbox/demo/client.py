"""HTTP callers of the demo. Calls to the API carry a persona's token, calls to sandbox providers do not."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import requests

from sandbox.demo.narrator import DemoFailedError, Narrator, picked

_TIMEOUTS_SECONDS = (3.0, 20.0)
_POLL_SECONDS = 0.2
# Members that hold the reason of an error in responses of the API, the gateway and the identity provider.
_REASONS = ("detail", "message", "error_description")


class Caller:
    """A client of the API, the gateway or the identity provider."""

    def __init__(
        self, base_url: str, narrator: Narrator, *, name: str, token: str | None = None, abroad: bool = False
    ) -> None:
        """Describe the caller.

        :param name: shown in the demo's output
        :param token: None for an anonymous caller
        :param abroad: print full URLs, because the base URL is not the API's
        """
        self._base_url = base_url
        self._narrator = narrator
        self._abroad = abroad
        self.name = name
        self.next_cursor: str | None = None  # of the last response, if it was paginated
        self._session = requests.Session()
        self._session.trust_env = False  # calls to this machine must not use a proxy from the environment
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def get(
        self, path: str, *shown: str, query: Mapping[str, Any] | None = None, quietly: bool = False
    ) -> Any:
        """Send a GET request.

        :param shown: fields of the response to print
        :param quietly: print nothing
        :return: the response's ``data``
        :raises DemoFailedError: the status is not 200
        """
        return self._call("GET", path, 200, shown, quietly=quietly, params=query)

    def post(self, path: str, *shown: str, body: Any = None, expected: int = 200) -> Any:
        """Send a POST request with a fresh Idempotency-Key.

        :param shown: fields of the response to print
        :return: the response's ``data``
        :raises DemoFailedError: the status is not the expected one
        """
        headers = {"Idempotency-Key": str(uuid4())}
        return self._call("POST", path, expected, shown, json=body, headers=headers)

    def put(self, path: str, *shown: str, body: Any) -> Any:
        """Send a PUT request."""
        return self._call("PUT", path, 200, shown, json=body)

    def upload(self, path: str, *shown: str, content: bytes, file_name: str) -> Any:
        """Send a file as the field ``file`` of a form."""
        return self._call("POST", path, 201, shown, files={"file": (file_name, content)})

    def delete(self, path: str, *shown: str) -> Any:
        """Send a DELETE request."""
        return self._call("DELETE", path, 200, shown)

    def _call(
        self,
        method: str,
        path: str,
        expected: int,
        shown: tuple[str, ...],
        *,
        quietly: bool = False,
        **more: Any,
    ) -> Any:
        request = self._session.prepare_request(requests.Request(method, f"{self._base_url}{path}", **more))
        address = str(request.url) if self._abroad else request.path_url
        if not quietly:
            self._narrator.asked(method, address, by=self.name, body=more.get("json"))
        try:
            answer = self._session.send(request, timeout=_TIMEOUTS_SECONDS)
        except requests.RequestException as error:
            raise DemoFailedError(
                f"{self._base_url} does not answer ({type(error).__name__}). Run `make status` for details."
            ) from error
        content = _content(answer)
        if answer.status_code != expected:
            self._narrator.answered(answer.status_code, content)
            detail = next((content[name] for name in _REASONS if content.get(name)), "no reason given")
            raise DemoFailedError(
                f"{method} {address} answered {answer.status_code} instead of {expected}: {detail}"
            )
        self.next_cursor = content.get("meta", {}).get("next_cursor")
        data = content.get("data", content)
        if not quietly:
            self._narrator.answered(answer.status_code, _shortened(data, shown))
        return data


def _content(answer: requests.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except requests.exceptions.JSONDecodeError:
        return {"detail": f"a response of {len(answer.content)} bytes that is not JSON"}
    return content if isinstance(content, dict) else {"data": content}


def _shortened(data: Any, shown: tuple[str, ...]) -> Any:
    if not shown:
        return data
    if isinstance(data, list):
        return [picked(item, *shown) for item in data[:2]] + (["…"] if len(data) > 2 else [])
    return picked(data, *shown)


def until(condition: Callable[[], Any], *, seconds: float, what: str, pause: Callable[[float], None]) -> Any:
    """Poll until a condition is true.

    :param condition: returns a true value when the wait is over
    :param what: the awaited event, in words
    :param pause: sleeps for the given seconds
    :return: the true value
    :raises DemoFailedError: the condition was not true in time
    """
    for _ in range(int(seconds / _POLL_SECONDS)):
        found = condition()
        if found:
            return found
        pause(_POLL_SECONDS)
    raise DemoFailedError(f"{what} did not happen within {seconds:.0f} s.")
