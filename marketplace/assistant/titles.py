"""Titles of threads: 3 to 5 words."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.assistant import prompts, texts
from marketplace.assistant.completions import ShortText, complete
from marketplace.assistant.privacy import protect
from marketplace.assistant.threads import read_first_messages
from marketplace.kernel.redaction import MARKER
from marketplace.providers.language_model import LanguageModel

MIN_WORDS, MAX_WORDS = 3, 5
MAX_MESSAGES = 20
_MAX_TOKENS = 40
_MAX_TITLE_LENGTH = 80
_EDGES = re.compile(r"^\W+|[^\w\])]+$")


@dataclass(frozen=True)
class ThreadMessage:
    """A message of a thread, by the ``user`` or the ``assistant``."""

    role: str
    content: str


def read_thread(session: Session, *, thread_id: UUID, user_id: UUID) -> list[ThreadMessage]:
    """Read the first messages of a person's thread.

    :raises NotFoundError: the thread does not exist, or belongs to another person
    """
    messages = read_first_messages(session, thread_id=thread_id, user_id=user_id, limit=MAX_MESSAGES)
    return [ThreadMessage(message.role, message.body) for message in messages]


def write_title(model: LanguageModel, messages: Sequence[ThreadMessage]) -> ShortText:
    """Write a title for a conversation. Errors are those of ``complete``."""
    conversation = [{"role": message.role, "text": _public(message.content)} for message in messages]
    written = complete(
        model,
        [
            {"role": "system", "content": prompts.read_prompt(prompts.SESSION_TITLE)},
            {"role": "user", "content": json.dumps(conversation, ensure_ascii=False)},
        ],
        max_tokens=_MAX_TOKENS,
    )
    return ShortText(shape_title(written.text, messages), written.tokens)


def shape_title(written: str, messages: Sequence[ThreadMessage]) -> str:
    """Bring a written title to 3 to 5 words. A title that is too short is replaced by the user's first words."""
    line = next(iter(_EDGES.sub("", written).splitlines()), "")
    words = _public(line).split()
    if len(words) < MIN_WORDS:
        first = next((message.content for message in messages if message.role == "user"), "")
        words = _public(first).split() or texts.UNTITLED.split()
    return _EDGES.sub("", " ".join(words[:MAX_WORDS]))[:_MAX_TITLE_LENGTH]


def _public(text: str) -> str:
    """Return a text without private values. A title needs no marker in their place."""
    return " ".join(protect(text).replace(MARKER, " ").split())
