"""The HTTP client of the providers' adapters: time-outs, limited retries of reads, logs, and two errors."""

import time
from collections.abc import Callable
from typing import IO, Any, Self
from urllib.parse import urlencode

import certifi
import orjson
import structlog
import urllib3
from urllib3.util import Retry, Timeout

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.signals import RECORDER
from marketplace.kernel.tracing import span
from marketplace.providers import texts

_log = structlog.get_logger(__name__)
_CONNECT_TIMEOUT_SECONDS = 3.0
_JSON_HEADERS = {"Content-Type": "application/json"}
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
# Errors before the request was sent, and statuses of providers that did nothing.
_NOT_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_NOT_DONE = frozenset({429, 503})


class ProviderRefusedError(Exception):
    """The provider refused the request, so a retry of the same request will not succeed.

    The status is 4xx, but not 408 or 429, which count as an unavailable provider.
    ``message`` and ``code`` come from the provider and can be empty. Adapters interpret these values. The values must
    never reach a client or a log.
    """

    def __init__(self, provider: str, status: int, message: str, code: str = "") -> None:
        super().__init__(f"{provider} refused with status {status}")
        self.status = status
        self.message = message
        self.code = code


class _RetryUnlessTimeout(Retry):
    """A retry policy that excludes time-outs."""

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> Self:
        """Count a failure, or raise the error if the policy excludes a retry.

        urllib3 defines the parameters.
        """
        if isinstance(error, urllib3.exceptions.TimeoutError):
            raise error
        return super().increment(method, url, response, error, _pool, _stacktrace)


class ProviderClient:
    """A client for JSON over HTTP with one provider.

    A GET is retried once if the connection fails or the provider returns 502, 503 or 504. A GET is not retried after
    a time-out, because the caller has waited long enough. Other methods are sent once. The caller knows whether the
    request is idempotent and decides about a retry.
    """

    def __init__(
        self, provider: str, base_url: str, *, timeout_seconds: float, headers: dict[str, str] | None = None
    ) -> None:
        self._provider = provider
        self._headers = headers or {}
        self._base_url = base_url
        # The pool of urllib3 takes half the processor time of a session of requests, which also reads proxies and
        # credentials from the environment and keeps cookies.
        self._retry = _RetryUnlessTimeout(
            total=1,
            backoff_factor=0.1,
            status_forcelist=(502, 503, 504),
            allowed_methods=("GET",),
            raise_on_status=False,
        )
        self._pool = urllib3.PoolManager(
            maxsize=32,
            timeout=Timeout(connect=min(_CONNECT_TIMEOUT_SECONDS, timeout_seconds), read=timeout_seconds),
            ca_certs=certifi.where(),
        )

    def get(self, path: str, *, params: dict[str, str] | None = None) -> Any:
        """Fetch a resource of the provider.

        :return: the JSON body
        :raises ProviderRefusedError: the provider refused the request
        :raises ProviderUnavailableError: no valid response in time
        """
        return self._call("GET", f"{path}?{urlencode(params)}" if params else path)

    def post(self, path: str, body: dict[str, Any], *, headers: dict[str, str] | None = None) -> Any:
        """Post JSON to the provider without retries.

        :param headers: further headers of this request
        :return: the JSON body
        :raises ProviderRefusedError: the provider refused the request and did nothing
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        return self._call("POST", path, body=orjson.dumps(body), headers=_JSON_HEADERS | (headers or {}))

    def delete(self, path: str) -> None:
        """Delete a resource without retries. The body of the response is ignored.

        :raises ProviderRefusedError: the provider refused the request and did nothing
        :raises ProviderUnavailableError: no response in time; the outcome is unknown
        """
        self._call("DELETE", path, read=self._ensure_deleted)

    def post_content(self, url: str, content: bytes, *, headers: dict[str, str]) -> None:
        """Post content without retries to a URL whose response has only a status. The URL can be a secret.

        :param url: relative to the base URL
        :raises ProviderRefusedError: the provider refused the request and did nothing
        :raises ProviderUnavailableError: no response in time
        """
        try:
            self._call("POST", url, read=self._ensure_success, body=content, headers=headers, logged_path="")
        except ProviderUnavailableError as error:
            # The cause names the URL.
            error.__cause__ = None
            raise error from None

    def post_without_reply(self, path: str, body: dict[str, Any]) -> None:
        """Post JSON without retries to a provider whose response has only a status.

        The URL can be a secret, so neither logs nor errors contain the URL.

        :raises ProviderRefusedError: the provider refused the request and did nothing
        :raises ProviderUnavailableError: no response in time; the outcome is unknown
        """
        self.post_content(path, orjson.dumps(body), headers=_JSON_HEADERS)

    def download(self, url: str, *, into: IO[bytes], max_bytes: int, seconds: float) -> bool:
        """Download content from an absolute URL. The URL can be a secret.

        :param into: receives the content
        :param seconds: the limit for the whole download
        :return: whether the content has at most ``max_bytes`` bytes; a longer content is cut
        :raises ProviderRefusedError: the provider refused the request
        :raises ProviderUnavailableError: no complete content in time
        """
        deadline = time.monotonic() + seconds
        size = 0
        try:
            response = self._pool.request(
                "GET", url, headers=self._headers, retries=self._retry, redirect=False, preload_content=False
            )
            try:
                self._ensure_success(response.status, None)
                for chunk in response.stream(_CHUNK_BYTES):
                    size += len(chunk)
                    if size > max_bytes:
                        return False
                    if time.monotonic() > deadline:
                        raise self._unavailable_error("download too slow")
                    into.write(chunk)
            finally:
                response.close()  # a connection with an unread rest cannot serve another request
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # The cause names the URL.
            raise self._unavailable_error(type(error).__name__) from None
        return True

    def _call(
        self,
        method: str,
        path: str,
        *,
        read: Callable[[int, bytes], Any] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        logged_path: str | None = None,
    ) -> Any:
        started_at = time.perf_counter()
        status: int | None = None
        outcome = "unavailable"
        try:
            with span(
                f"{method} {self._provider}", kind="client", marketplace__provider=self._provider
            ) as call:
                response = self._pool.request(
                    method,
                    f"{self._base_url}{path}",
                    body=body,
                    headers={**(headers or {}), **self._headers},
                    retries=self._retry,
                    redirect=False,
                    preload_content=False,
                )
                status = response.status
                call.set_attribute("http.response.status_code", status)
                content = response.read(_MAX_RESPONSE_BYTES + 1, decode_content=True)
            if len(content) > _MAX_RESPONSE_BYTES:
                response.close()  # a connection with an unread rest cannot serve another request
            answer = (read or self._read)(status, content)
        except ProviderRefusedError:
            outcome = "refused"
            raise
        except (urllib3.exceptions.HTTPError, OSError) as error:
            cause = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error
            was_sent = not isinstance(cause, _NOT_SENT)
            raise self._unavailable_error(type(cause).__name__, may_have_happened=was_sent) from error
        else:
            outcome = "ok"
            return answer
        finally:
            seconds = time.perf_counter() - started_at
            RECORDER.observe("provider", f"{self._provider} {outcome}", seconds)
            _log.info(
                "provider called",
                provider=self._provider,
                providerMethod=method,
                providerPath=path.partition("?")[0] if logged_path is None else logged_path,
                status=status,
                durationMs=round(seconds * 1000, 1),
            )

    def _read(self, status: int, content: bytes) -> Any:
        if len(content) > _MAX_RESPONSE_BYTES:
            raise self._unavailable_error("response too large")
        try:
            body = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise self._unavailable_error("response is not JSON") from error
        self._ensure_success(status, body)
        return body

    def _ensure_deleted(self, status: int, _content: bytes) -> None:
        self._ensure_success(status, None)

    def _ensure_success(self, status: int, body: Any) -> None:
        if 400 <= status < 500 and status not in (408, 429):
            fields = body if isinstance(body, dict) else {}
            if isinstance(fields.get("error"), dict):
                fields = fields["error"]
            message, code = (str(fields.get(name) or "") for name in ("message", "code"))
            raise ProviderRefusedError(self._provider, status, message, code)
        if not 200 <= status < 300:
            raise self._unavailable_error(f"status {status}", may_have_happened=status not in _NOT_DONE)

    def _unavailable_error(self, reason: str, *, may_have_happened: bool = True) -> ProviderUnavailableError:
        _log.warning("provider unavailable", provider=self._provider, reason=reason)
        error = ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=self._provider))
        error.may_have_happened = may_have_happened
        return error
