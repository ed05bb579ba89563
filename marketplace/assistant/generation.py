"""An answer of the assistant: rounds of the language model and of tools, as a sequence of events."""

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from marketplace.assistant.privacy import ProtectedText
from marketplace.assistant.tools.toolbox import Toolbox, ToolResult, tool_schemas
from marketplace.providers.language_model import Completion, LanguageModel, ModelStream, ToolCall

MAX_TOOL_ROUNDS = 6
MAX_ANSWER_TOKENS = 800
# A provider that counts no tokens, or that was stopped, is counted by the length of the texts.
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class AnswerText:
    """The next piece of the answer, without private values."""

    text: str


@dataclass(frozen=True)
class ToolCalled:
    """A call that the model wants, before the tool runs."""

    call: ToolCall


AnswerEvent = AnswerText | ToolCalled | ToolResult


class Generation:
    """An answer in progress. ``text``, ``prompt_tokens`` and ``completion_tokens`` grow with the answer."""

    def __init__(self, model: LanguageModel, toolbox: Toolbox, messages: Sequence[dict[str, Any]]) -> None:
        """Create an answer to messages in the chat-completions format, without private values."""
        self.text = ""
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.is_cut = False
        self._model = model
        self._toolbox = toolbox
        self._messages = list(messages)

    def events(self) -> Generator[AnswerEvent, None, None]:
        """Yield the events of the answer. Closing the iterator ends the call at the provider.

        After ``MAX_TOOL_ROUNDS`` rounds of tools the model must answer without tools.

        :raises ProviderUnavailableError: the provider failed, or is silent for too long
        :raises ProviderRefusedError: the provider refused the request
        """
        for number in range(MAX_TOOL_ROUNDS + 1):
            tools = tool_schemas() if number < MAX_TOOL_ROUNDS else ()
            calls = yield from self._complete(tools)
            if not calls or not tools:
                return
            for call in calls:
                yield ToolCalled(call)
            results = self._toolbox.run(calls)
            yield from results
            self._messages += [_as_message(result) for result in results]

    def _complete(self, tools: Sequence[dict[str, Any]]) -> Generator[AnswerEvent, None, Sequence[ToolCall]]:
        """Yield the text of one completion, and return the calls of tools."""
        has_text = bool(self.text)
        written = ""
        protected = ProtectedText()
        completion: Completion | None = None
        stream: ModelStream | None = None
        try:
            stream = self._model.stream(messages=self._messages, tools=tools, max_tokens=MAX_ANSWER_TOKENS)
            for part in stream:
                if isinstance(part, Completion):
                    completion = part
                    break
                written += part.text
                yield from self._release(protected.add(part.text), separate=has_text)
            yield from self._release(protected.finish(), separate=has_text)
        finally:
            if stream is not None:
                stream.close()
            self._count_tokens(completion, written)
        calls = completion.tool_calls if completion else ()
        self.is_cut = completion is not None and completion.is_cut
        if calls:
            self._messages.append(
                {
                    "role": "assistant",
                    "content": written or None,
                    "tool_calls": [_as_call(call) for call in calls],
                }
            )
        return calls

    def _release(self, text: str, *, separate: bool) -> Iterator[AnswerText]:
        if not text:
            return
        if separate and self.text and not self.text[-1].isspace() and not text[0].isspace():
            text = f" {text}"
        self.text += text
        yield AnswerText(text)

    def _count_tokens(self, completion: Completion | None, written: str) -> None:
        prompt = completion.prompt_tokens if completion else None
        answer = completion.completion_tokens if completion else None
        if prompt is None:
            prompt = sum(_length(message) for message in self._messages) // _CHARACTERS_PER_TOKEN
        self.prompt_tokens += prompt
        self.completion_tokens += len(written) // _CHARACTERS_PER_TOKEN + 1 if answer is None else answer


def _length(message: dict[str, Any]) -> int:
    content = message.get("content")
    if isinstance(content, list):
        return sum(len(part.get("text", "")) for part in content)
    return len(content or "")


def _as_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _as_message(result: ToolResult) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": result.call.id,
        "content": json.dumps({"kind": "data", **result.content}, ensure_ascii=False),
    }
