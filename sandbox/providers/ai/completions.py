"""Chat completions of the AI provider: a stand-in that streams, calls tools and answers from their results."""

import json
import time
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.ai.context import Call, Provider, current_provider
from sandbox.providers.ai.intents import answer_text, choose_calls, written_text

MAXIMUM_BODY_BYTES = 12 * 1_048_576
_ROLES = ("system", "developer", "user", "assistant", "tool")

completions = Blueprint("completions", __name__)


@completions.post("/chat/completions")
def complete() -> Response:
    """Answer a conversation as a stream of chunks, or in one piece."""
    request.max_content_length = MAXIMUM_BODY_BYTES
    provider = current_provider()
    body: dict[str, Any] = dict(fields.json_object(request))
    model = fields.text(body, "model")
    messages = _messages(body)
    provider.record_prompt(body)
    planned = provider.take_completion()
    if planned in ("error", "refused", "limited"):
        return _refuse(planned)
    if planned == "timeout":
        provider.stopping.wait(provider.hang_seconds)
    scripted = provider.take_reply()
    text, calls = _respond(messages, _tool_names(body)) if scripted is None else scripted
    writer = _Writer(model, sum(len(str(message.get("content"))) for message in messages) // 4)
    if not body.get("stream"):
        return Response(json.dumps(writer.whole(text, calls)), mimetype="application/json")
    include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    chunks = _stream(provider, writer, text, calls, include_usage=include_usage, fault=planned)
    return Response(chunks, mimetype="text/event-stream")


@completions.get("/models/<model>")
def show_model(model: str) -> Response:
    """Show the metadata of a model. The stand-in offers every model but ``missing``."""
    if model == "missing":
        return _refuse("refused")
    return Response(
        json.dumps({"id": model, "object": "model", "created": 0, "owned_by": "sandbox"}),
        mimetype="application/json",
    )


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Read the messages.

    :raises InvalidFieldError: the value is not a list of messages with known roles
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise fields.InvalidFieldError("messages", "messages must be a list of messages")
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise fields.InvalidFieldError("messages", f"each message must have a role: {', '.join(_ROLES)}")
    return messages


def _tool_names(body: dict[str, Any]) -> list[str]:
    return [str(tool["function"]["name"]) for tool in body.get("tools") or () if "function" in tool]


def _respond(messages: list[dict[str, Any]], tools: list[str]) -> tuple[str, list[Call]]:
    """Choose tools for the last text of the user, or answer from the results that follow it."""
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    text = _plain(messages[last].get("content")) if last >= 0 else ""
    instructions = " ".join(
        _plain(message.get("content")) for message in messages if message["role"] in ("system", "developer")
    )
    written = written_text(instructions, text)
    if written is not None:
        return written, []
    answered = messages[last + 1 :]
    rounds = [message for message in answered if message.get("tool_calls")]
    called = [str(call["function"]["name"]) for message in rounds for call in message["tool_calls"]]
    results = [_plain(message.get("content")) for message in answered if message["role"] == "tool"]
    # Results without calls come from a client that keeps only results.
    is_answer = bool(results and not called)
    calls = [] if is_answer else choose_calls(text, tools=tools, called=called, results=results)
    # Only the results of the last round answer the text.
    latest = results[-len(rounds[-1]["tool_calls"]) :] if rounds else results
    return ("" if calls else answer_text(text, latest)), calls


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


class _Writer:
    """Builds the objects of one completion."""

    def __init__(self, model: str, prompt_tokens: int) -> None:
        self._facts = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time()), "model": model}
        self._prompt_tokens = prompt_tokens
        self._made = 0

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        self._made += 1
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return _event(self._facts | {"object": "chat.completion.chunk", "choices": [choice]})

    def usage_chunk(self) -> bytes:
        facts = self._facts | {"object": "chat.completion.chunk", "choices": [], "usage": self._usage()}
        return _event(facts)

    def whole(self, text: str, calls: list[Call]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [_tool_call(call, index) for index, call in enumerate(calls)]
        reason = "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self._made = len(text.split())
        return self._facts | {"object": "chat.completion", "choices": [choice], "usage": self._usage()}

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._made,
            "total_tokens": self._prompt_tokens + self._made,
        }


def _stream(
    provider: Provider,
    writer: _Writer,
    text: str,
    calls: list[Call],
    *,
    include_usage: bool,
    fault: str | None,
) -> Iterator[bytes]:
    provider.streams_changed(1)
    try:
        yield writer.chunk({"role": "assistant", "content": ""})
        for index, call in enumerate(calls):
            # The arguments come in two parts, as models send them.
            made = _tool_call(call, index)
            arguments = made["function"]["arguments"]
            half = len(arguments) // 2
            made["function"]["arguments"] = arguments[:half]
            yield writer.chunk({"tool_calls": [made]})
            rest = {"index": index, "function": {"arguments": arguments[half:]}}
            yield writer.chunk({"tool_calls": [rest]})
        for number, word in enumerate(text.split(" ")):
            if number == 2 and fault in ("broken", "garbled", "stalled"):
                yield from _fail(provider, fault)
                return
            yield writer.chunk({"content": word if number == 0 else f" {word}"})
            provider.stopping.wait(1 / provider.tokens_per_second)
        yield writer.chunk({}, "tool_calls" if calls else "stop")
        if include_usage:
            yield writer.usage_chunk()
        yield b"data: [DONE]\n\n"
    finally:
        provider.streams_changed(-1)


def _fail(provider: Provider, fault: str) -> Iterator[bytes]:
    """Break the stream: rubbish, silence until the hang time, or just its end."""
    if fault == "garbled":
        yield b'data: {"choices": [{"delta": \n\n'
    if fault == "stalled":
        provider.stopping.wait(provider.hang_seconds)


def _tool_call(call: Call, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "id": f"call_{token_hex(8)}",
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
    }


def _refuse(outcome: str) -> Response:
    status, message = {
        "error": (500, "The server had an error while processing your request"),
        "refused": (403, "The project does not have access to the model"),
        "limited": (429, "Rate limit reached for requests"),
    }[outcome]
    body = {"error": {"message": message, "type": "server_error", "param": None, "code": outcome}}
    headers = {"Retry-After": "7"} if outcome == "limited" else {}
    return Response(json.dumps(body), status=status, mimetype="application/json", headers=headers)


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"
