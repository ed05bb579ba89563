"""The messages of a conversation for the language model."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from marketplace.assistant import prompts, texts
from marketplace.assistant.threads import NewThreadMessage, StoredMessage, Turn
from marketplace.kernel.opening_hours import LAGOS


def build_messages(turn: Turn, *, context: Mapping[str, str], now: datetime) -> list[dict[str, Any]]:
    """Return the instructions, the earlier messages and the question, in the chat-completions format.

    Only the instructions are a system message. Texts of people and data have other roles.

    :param context: ids of what the person looks at
    """
    today = f"{now.astimezone(LAGOS):%A, %d %B %Y, %H:%M}"
    instructions = f"{prompts.read_prompt(prompts.CONVERSATION)}\n\nNow in Nigeria: {today}."
    messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}]
    if turn.summary:
        messages.append(_user_message(texts.SUMMARY_OF_THREAD.format(summary=json.dumps(turn.summary))))
    messages += [_stored_message(message) for message in turn.history]
    if context:
        messages.append(_user_message(texts.CONTEXT_OF_PERSON.format(context=json.dumps(dict(context)))))
    return messages + [_new_message(message) for message in turn.new]


def _user_message(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _stored_message(message: StoredMessage) -> dict[str, Any]:
    content = message.body
    if message.picture_count:
        content += f" {texts.PICTURES_SENT_EARLIER.format(count=message.picture_count)}"
    return {"role": message.role, "content": content}


def _new_message(message: NewThreadMessage) -> dict[str, Any]:
    if not message.pictures:
        return {"role": message.role, "content": message.content}
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in message.pictures]
    return {"role": message.role, "content": [{"type": "text", "text": message.content}, *parts]}
