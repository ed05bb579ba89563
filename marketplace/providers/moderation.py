"""The interface for text moderation, and the adapter of an OpenAI-compatible HTTP API."""

from dataclasses import dataclass
from typing import Any, Protocol

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient


@dataclass(frozen=True)
class ModerationResult:
    """The moderation result of a text: whether the text is flagged, and the categories."""

    flagged: bool
    categories: tuple[str, ...] = ()


class ContentModerator(Protocol):
    """A provider that moderates texts."""

    def check(self, text: str) -> ModerationResult:
        """Check whether a text is suitable for publication."""


class HttpContentModerator:
    """The moderation endpoint of an OpenAI-compatible API. Requests contain only the text."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.ai_moderation_model
        self._client = ProviderClient(
            "ai moderation",
            settings.ai_url.rstrip("/"),
            timeout_seconds=settings.ai_timeout_seconds,
            headers={"Authorization": f"Bearer {settings.ai_key}"} if settings.ai_key else None,
        )

    def check(self, text: str) -> ModerationResult:
        """Check whether a text is suitable for publication.

        :param text: the text, which is neither logged nor stored
        :raises ProviderRefusedError: the provider refused the request, for example because of the key
        :raises ProviderUnavailableError: no valid response in time
        """
        return _parse_result(self._client.post("/moderations", {"model": self._model, "input": text}))


def make_content_moderator(settings: Settings) -> ContentModerator | None:
    """Create the adapter, or return none if no provider is configured."""
    return HttpContentModerator(settings) if settings.ai_url else None


def _parse_result(answer: Any) -> ModerationResult:
    """Parse a response. A malformed response is an error, so that no listing is published without a result."""
    match answer:
        case {"results": [{"flagged": bool(flagged), **others}]}:
            categories = others.get("categories") or {}
            if isinstance(categories, dict):
                hits = sorted(name for name, hit in categories.items() if hit is True)
                return ModerationResult(flagged=flagged, categories=tuple(hits))
    raise ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider="ai moderation"))
