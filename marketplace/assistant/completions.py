"""Short texts by the language model, collected within a deadline."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marketplace.assistant import texts
from marketplace.assistant.usage import TokenCount
from marketplace.kernel.errors import ProviderUnavailableError, ServiceUnavailableError
from marketplace.providers import texts as provider_texts
from marketplace.providers.language_model import LanguageModel, TextDelta

DEADLINE_SECONDS = 25.0
_RETRY_SECONDS = 3_600


class AssistantNotConfiguredError(ServiceUnavailableError):
    """The installation has no language model."""

    reason = "assistant-not-configured"


@dataclass(frozen=True)
class ShortText:
    """A text of the language model, and the tokens of the call. A provider that counts no tokens counts as none."""

    text: str
    tokens: TokenCount


def ensure_configured(model: LanguageModel | None) -> LanguageModel:
    """Return the language model.

    :raises AssistantNotConfiguredError: the installation has none
    """
    if model is None:
        raise AssistantNotConfiguredError(texts.NOT_CONFIGURED, retry_after_seconds=_RETRY_SECONDS)
    return model


def complete(model: LanguageModel, messages: Sequence[dict[str, Any]], *, max_tokens: int) -> ShortText:
    """Collect an answer. Call this outside of a database transaction.

    :param messages: in the chat-completions format, without personal data
    :raises ProviderUnavailableError: the provider failed, or took longer than ``DEADLINE_SECONDS``
    :raises ProviderRefusedError: the provider refused the request
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    stream = model.stream(messages=messages, tools=(), max_tokens=max_tokens)
    pieces: list[str] = []
    try:
        for part in stream:
            if isinstance(part, TextDelta):
                pieces.append(part.text)
            else:
                tokens = TokenCount(part.prompt_tokens or 0, part.completion_tokens or 0)
                return ShortText("".join(pieces).strip(), tokens)
            if time.monotonic() > deadline:
                break
    finally:
        stream.close()
    raise ProviderUnavailableError(provider_texts.PROVIDER_UNAVAILABLE.format(provider="language model"))
