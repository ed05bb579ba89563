"""The provider that looks at words: what the domain asks of it, and the adapter of its HTTP API."""

from dataclasses import dataclass
from typing import Any, Protocol

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderClient


@dataclass(frozen=True)
class ModerationResult:
    """What the provider says of a text: whether anything is wrong with it, and of which kinds."""

    flagged: bool
    categories: tuple[str, ...] = ()


class ContentModerator(Protocol):
    """What the domain asks of the provider."""

    def check(self, text: str) -> ModerationResult:
        """Ask whether a text is fit for the public."""


class HttpContentModerator:
    """The moderation endpoint of an OpenAI-compatible API. Nothing but the text is sent."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.ai_moderation_model
        self._client = ProviderClient(
            "ai moderation",
            settings.ai_url.rstrip("/"),
            timeout_seconds=settings.ai_timeout_seconds,
            headers={"Authorization": f"Bearer {settings.ai_key}"} if settings.ai_key else None,
        )

    def check(self, text: str) -> ModerationResult:
        """Ask whether a text is fit for the public.

        :param text: what is looked at; it is neither logged nor kept
        :return: the verdict
        :raises ProviderRefusedError: the provider refused, for instance the key
        :raises ProviderUnavailableError: no usable answer in time
        """
        return _parse_result(self._client.post("/moderations", {"model": self._model, "input": text}))


def make_content_moderator(settings: Settings) -> ContentModerator | None:
    """Make the adapter, or give none where no provider is configured."""
    return HttpContentModerator(settings) if settings.ai_url else None


def _parse_result(answer: Any) -> ModerationResult:
    """Read an answer. What is not as described is no verdict: a listing is not published on a guess."""
    match answer:
        case {"results": [{"flagged": bool(flagged), **others}]}:
            categories = others.get("categories") or {}
            if isinstance(categories, dict):
                hits = sorted(name for name, hit in categories.items() if hit is True)
                return ModerationResult(flagged=flagged, categories=tuple(hits))
    raise ProviderUnavailableError("The ai moderation did not answer as it should. Try again.")
