"""The demo's people: each calls the API with a token of their own, and the sandbox providers without."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import requests

from sandbox.demo.narrator import DemoFailedError, Narrator, picked

_TIMEOUTS_SECONDS = (3.0, 20.0)
_POLL_SECONDS = 0.2
# Where the API, the gateway and the identity provider say what was wrong.
_REASONS = ("detail", "message", "error_description")


class Caller:
    """Somebody who calls the API, or the gateway where it is asked so."""

    def __init__(
        self, base_url: str, narrator: Narrator, *, name: str, token: str | None = None, abroad: bool = False
    ) -> None:
        """Describe somebody.

        :param base_url: of what is called
        :param name: who it is, for people
        :param token: none for somebody who is not signed in
        :param abroad: it is not the API that is called, so that whole addresses are shown
        """
        self._base_url = base_url
        self._narrator = narrator
        self._abroad = abroad
        self.name = name
        self.next_cursor: str | None = None  # of the last answer, if it was one of several pages
        self._session = requests.Session()
        self._session.trust_env = False  # this machine's own server: no proxy of the environment is before it
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def get(
        self, path: str, *shown: str, query: Mapping[str, Any] | None = None, quietly: bool = False
    ) -> Any:
        """Read something.

        :param shown: the fields of the answer that are printed
        :param quietly: nothing is printed
        :return: the answer's ``data``
        :raises DemoFailedError: it was not 200
        """
        return self._call("GET", path, 200, shown, quietly=quietly, params=query)

    def post(self, path: str, *shown: str, body: Any = None, expected: int = 200) -> Any:
        """Send something, under a fresh Idempotency-Key.

        :param shown: the fields of the answer that are printed
        :param expected: the status that it must answer
        :return: the answer's ``data``
        :raises DemoFailedError: it answered another
        """
        headers = {"Idempotency-Key": str(uuid4())}
        return self._call("POST", path, expected, shown, json=body, headers=headers)

    def delete(self, path: str, *shown: str) -> Any:
        """Remove something."""
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
            raise DemoFailedError(f"{self._base_url} does not answer: {type(error).__name__}.") from error
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
        return {"detail": f"an answer of {len(answer.content)} bytes that is not JSON"}
    return content if isinstance(content, dict) else {"data": content}


def _shortened(data: Any, shown: tuple[str, ...]) -> Any:
    if not shown:
        return data
    if isinstance(data, list):
        return [picked(item, *shown) for item in data[:2]] + (["…"] if len(data) > 2 else [])
    return picked(data, *shown)


def until(condition: Callable[[], Any], *, seconds: float, what: str, pause: Callable[[float], None]) -> Any:
    """Ask until there is an answer.

    :param condition: gives something true when it is time
    :param seconds: how long to ask at most
    :param what: is waited for, in words
    :param pause: waits so many seconds
    :raises DemoFailedError: it took longer
    """
    for _ in range(int(seconds / _POLL_SECONDS)):
        found = condition()
        if found:
            return found
        pause(_POLL_SECONDS)
    raise DemoFailedError(f"{what} did not happen within {seconds:.0f} s.")
