"""The interface for language models, and the adapter of the OpenAI-compatible chat-completions format.

Hosted models and local servers such as llama.cpp, vLLM and Ollama speak this format.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

import orjson
import structlog

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.signals import RECORDER
from marketplace.kernel.tracing import span
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_log = structlog.get_logger(__name__)
_CONNECT_SECONDS = 3.0
_METADATA_SECONDS = 5.0
_PROVIDER = "language model"
# Tool calls and arguments beyond these limits are a fault of the model.
_MAX_TOOL_CALLS = 16
_MAX_ARGUMENT_LENGTH = 16_000
_MAX_LINE_BYTES = 1_048_576


class ModelBusyError(ProviderUnavailableError):
    """The provider has answered 429: the rate limit or the budget of the key is reached."""

    reason = "model-busy"


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that the model wants. ``arguments`` is JSON as the model wrote it, not validated."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the model's text."""

    text: str


@dataclass(frozen=True)
class Completion:
    """The end of a model's answer, with the calls of tools, and the tokens if the provider counts them."""

    tool_calls: Sequence[ToolCall]
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    is_cut: bool = False


class ModelStream(Protocol):
    """An answer in progress."""

    def __iter__(self) -> Iterator[TextDelta | Completion]:
        """Yield pieces of text, and the completion at the end."""

    def close(self) -> None:
        """End the call at the provider. A second call does nothing."""


class LanguageModel(Protocol):
    """A provider that answers conversations and calls tools."""

    def load(self) -> None:
        """Load the client of the provider, which takes seconds, before the first call."""

    def stream(
        self, *, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], max_tokens: int
    ) -> ModelStream:
        """Start an answer."""

    def check_model(self) -> None:
        """Check that the provider offers the model."""


class OpenAiCompatibleModel:
    """A model behind an OpenAI-compatible API. The adapter is thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Create the adapter without the client of the provider.

        The client's library is large and most processes never need it. The first use therefore creates the client.
        """
        self._settings = settings
        self._made_client: Any = None
        self._client_lock = threading.Lock()
        self._metadata_client = ProviderClient(
            _PROVIDER,
            settings.assistant_url.rstrip("/"),
            timeout_seconds=_METADATA_SECONDS,
            headers={"Authorization": f"Bearer {settings.assistant_key or 'none'}"},
        )

    def load(self) -> None:
        """Load the client's library, and create the client."""
        _ = self._client

    @property
    def _client(self) -> Any:
        with self._client_lock:
            if self._made_client is None:
                self._made_client = _make_client(self._settings)
            return self._made_client

    def check_model(self) -> None:
        """Fetch the metadata of the model, without the client's large library.

        :raises ProviderRefusedError: the provider has no such model, or refused the key
        :raises ProviderUnavailableError: no valid response in time
        """
        reply = self._metadata_client.get(f"/models/{quote(self._settings.assistant_model, safe='')}")
        if not isinstance(reply, dict) or not isinstance(reply.get("id"), str):
            raise ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_PROVIDER))

    def stream(
        self, *, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], max_tokens: int
    ) -> "OpenAiStream":
        """Start an answer.

        :param messages: in the chat-completions format
        :param tools: functions in the chat-completions format, with a JSON Schema of the parameters
        :param max_tokens: limit of the answer
        :raises ModelBusyError: the provider limits the rate
        :raises ProviderRefusedError: the provider refused the request, for example because of the key
        :raises ProviderUnavailableError: no valid response in time
        """
        body: dict[str, Any] = {"messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        with (
            span(f"POST {_PROVIDER}", kind="client", marketplace__provider=_PROVIDER),
            _recording_failures(),
            _provider_errors(),
        ):
            # The library would check messages and tools against its types, which takes longer than our own work. The
            # same holds for the pieces of the answer, so the response is read as lines.
            response = self._client.chat.completions.with_streaming_response.create(
                model=self._settings.assistant_model,
                messages=[],
                extra_body=body,
                max_tokens=max_tokens,
                stream=True,
                stream_options={"include_usage": True},
            ).__enter__()
        return OpenAiStream(response)


class OpenAiStream:
    """A streamed answer of an OpenAI-compatible API."""

    def __init__(self, response: Any) -> None:
        """Wrap the library's response, which is open."""
        self._response = response
        self._started_at = time.perf_counter()

    def __iter__(self) -> Iterator[TextDelta | Completion]:
        """Yield pieces of text, and the completion at the end.

        :raises ProviderUnavailableError: the answer broke, or a chunk is malformed
        """
        with _recording_failures():
            yield from self._read_answer()
        RECORDER.observe("provider", f"{_PROVIDER} ok", time.perf_counter() - self._started_at)

    def _read_answer(self) -> Iterator[TextDelta | Completion]:
        calls: dict[int, _PartialCall] = {}
        finish_reason: str | None = None
        usage: dict[str, Any] = {}
        chunks = _read_chunks(self._response)
        while True:
            with _provider_errors():
                chunk = next(chunks, None)
                if chunk is None:
                    break
                usage = chunk.get("usage") or usage
                choice = chunk["choices"][0] if chunk["choices"] else {}
                delta = choice.get("delta") or {}
                finish_reason = choice.get("finish_reason") or finish_reason
                text = str(delta.get("content") or "")
                _collect(calls, delta.get("tool_calls") or ())
            if text:
                yield TextDelta(text)
        if finish_reason is None:
            # A complete answer names its reason. Without one, the connection ended early.
            raise _unavailable("ended early")
        yield Completion(
            [part.whole() for _, part in sorted(calls.items())],
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            is_cut=finish_reason == "length",
        )

    def close(self) -> None:
        """End the call at the provider. A second call does nothing."""
        self._response.close()


@dataclass
class _PartialCall:
    """A tool call whose arguments arrive in pieces."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def whole(self) -> ToolCall:
        if not self.id or not self.name:
            raise _unavailable("tool call without name")
        return ToolCall(self.id, self.name, self.arguments or "{}")


def _read_chunks(response: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of the server-sent events, until ``[DONE]``."""
    rest = b""
    for received in response.iter_bytes():
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name != b"data":
                continue
            if value.strip() == b"[DONE]":
                return
            chunk = orjson.loads(value)
            if "error" in chunk:
                raise _unavailable("error within the answer")
            yield chunk
        if len(rest) > _MAX_LINE_BYTES:
            raise _unavailable("line too long")


def _collect(calls: dict[int, _PartialCall], pieces: Sequence[dict[str, Any]]) -> None:
    for piece in pieces:
        # Some local servers send whole calls without an index.
        part = calls.setdefault(piece.get("index", len(calls)), _PartialCall())
        function = piece.get("function") or {}
        part.id = piece.get("id") or part.id
        part.name += function.get("name") or ""
        part.arguments += function.get("arguments") or ""
        if len(calls) > _MAX_TOOL_CALLS or len(part.arguments) > _MAX_ARGUMENT_LENGTH:
            raise _unavailable("tool calls too long")


@contextmanager
def _recording_failures() -> Iterator[None]:
    """Record a failed call. An answer that the reader closes early is no failure."""
    started_at = time.perf_counter()
    try:
        yield
    except ProviderRefusedError:
        RECORDER.observe("provider", f"{_PROVIDER} refused", time.perf_counter() - started_at)
        raise
    except ProviderUnavailableError:
        RECORDER.observe("provider", f"{_PROVIDER} unavailable", time.perf_counter() - started_at)
        raise


@contextmanager
def _provider_errors() -> Iterator[None]:
    """Convert the errors of the client's library, of its HTTP library, and of malformed chunks."""
    # Imported here because most processes never need the library.
    import openai  # noqa: PLC0415

    try:
        yield
    except (ProviderUnavailableError, ProviderRefusedError):
        raise
    except openai.RateLimitError as error:
        _log.warning("language model busy")
        raise ModelBusyError(texts.PROVIDER_UNAVAILABLE.format(provider=_PROVIDER)) from error
    except openai.APIStatusError as error:
        if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _unavailable(f"status {error.status_code}") from error
        _log.error("language model refused", status=error.status_code)
        raise ProviderRefusedError(_PROVIDER, error.status_code, "") from error
    except Exception as error:
        raise _unavailable(type(error).__name__) from error


def _unavailable(reason: str) -> ProviderUnavailableError:
    _log.warning("language model unavailable", reason=reason)
    return ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_PROVIDER))


def make_language_model(settings: Settings) -> LanguageModel | None:
    """Create the adapter, or return none if no provider is configured."""
    return OpenAiCompatibleModel(settings) if settings.assistant_url else None


def _make_client(settings: Settings) -> Any:
    # Imported here because the import takes seconds and 40 MB.
    import openai  # noqa: PLC0415

    return openai.OpenAI(
        base_url=settings.assistant_url.rstrip("/"),
        api_key=settings.assistant_key or "none",
        max_retries=0,
        timeout=openai.Timeout(settings.assistant_read_seconds, connect=_CONNECT_SECONDS),
    )
