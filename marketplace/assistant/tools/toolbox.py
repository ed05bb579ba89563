"""The tools of a person: schemas for the model, validated calls, and results without private values."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

import jsonschema_rs
import orjson
import structlog
from sqlalchemy.exc import SQLAlchemyError

from marketplace.assistant import prompts, texts
from marketplace.assistant.privacy import clean_data
from marketplace.assistant.tools.context import Proposal, Result, ToolContext
from marketplace.assistant.tools.proposing import PROPOSING_TOOLS, CannotProposeError
from marketplace.assistant.tools.reading import READING_TOOLS
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.kernel.errors import MarketplaceError
from marketplace.providers.language_model import ToolCall

_log = structlog.get_logger(__name__)
_MAX_PARALLEL_CALLS = 4
_MAX_TEXT_LENGTH = 600
_MAX_RESULT_LENGTH = 8_000


@dataclass(frozen=True)
class ToolResult:
    """The result of a call: data for the model, and the proposal if the tool made one."""

    call: ToolCall
    arguments: dict[str, Any]
    content: Result
    proposal: Proposal | None = None

    @property
    def is_error(self) -> bool:
        """Whether the call failed. The content then has an ``error``."""
        return "error" in self.content


class Toolbox:
    """The tools under the rights of a person. Permissions of a staff role do not count."""

    def __init__(
        self, database: Database, *, caller: Caller, clock: Callable[[], datetime], media_base_url: str
    ) -> None:
        self._database = database
        self._caller = replace(caller, role="buyer", staff_role=None, permissions=frozenset())
        self._clock = clock
        self._media_base_url = media_base_url

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls of a round at once, and return the results in the order of the calls."""
        if len(calls) == 1:
            return [self._run_one(calls[0])]
        with ThreadPoolExecutor(_MAX_PARALLEL_CALLS) as pool:
            return list(pool.map(self._run_one, calls))

    def _run_one(self, call: ToolCall) -> ToolResult:
        try:
            arguments = _parse_arguments(call)
            content, proposal = self._execute(call.name, arguments)
        except _InvalidCallError as error:
            return ToolResult(call, {}, {"error": str(error)})
        except CannotProposeError as error:
            return ToolResult(call, arguments, {"error": str(error)})
        except MarketplaceError as error:
            return ToolResult(call, arguments, {"error": error.detail})
        except SQLAlchemyError as error:
            _log.warning("tool failed", tool=call.name, error=type(error).__name__)
            return ToolResult(call, arguments, {"error": texts.TOOL_UNAVAILABLE})
        return ToolResult(
            call, arguments, _shorten(clean_data(content, max_length=_MAX_TEXT_LENGTH)), proposal
        )

    def _execute(self, name: str, arguments: dict[str, Any]) -> tuple[Result, Proposal | None]:
        with self._database.reading() as session:
            context = ToolContext(session, self._caller, self._clock(), self._media_base_url)
            if name in READING_TOOLS:
                return READING_TOOLS[name](context, arguments), None
            proposal = PROPOSING_TOOLS[name](context, arguments)
        return {"title": proposal.summary, "status": texts.WAITS_FOR_CONFIRMATION}, proposal


class _InvalidCallError(Exception):
    """The model called an unknown tool, or wrote invalid arguments."""


@cache
def tool_schemas() -> list[dict[str, Any]]:
    """Return the tools in the chat-completions format."""
    return [{"type": "function", "function": tool} for tool in _read_tools()]


def _read_tools() -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = orjson.loads(prompts.read_file(f"{prompts.TOOLS}.json"))
    return tools


@cache
def _validators() -> dict[str, jsonschema_rs.Draft202012Validator]:
    return {
        tool["name"]: jsonschema_rs.Draft202012Validator(tool["parameters"], validate_formats=True)
        for tool in _read_tools()
    }


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    """Parse the arguments of a call.

    :raises _InvalidCallError: the tool is unknown, or the arguments do not match the schema
    """
    validator = _validators().get(call.name)
    if validator is None:
        raise _InvalidCallError(texts.UNKNOWN_TOOL)
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        raise _InvalidCallError(texts.ARGUMENTS_NOT_JSON) from None
    for fault in validator.iter_errors(arguments):
        name = ".".join(str(part) for part in fault.instance_path) or texts.ARGUMENTS
        raise _InvalidCallError(texts.INVALID_ARGUMENT.format(name=name, fault=fault.message[:200]))
    parsed: dict[str, Any] = arguments
    return parsed


def _shorten(content: Result) -> Result:
    """Drop the last items of a result that is too long."""
    items = content.get("items")
    while isinstance(items, list) and len(items) > 1 and len(json.dumps(content)) > _MAX_RESULT_LENGTH:
        items = items[:-1]
        content = {**content, "items": items, "note": texts.RESULT_SHORTENED}
    return content
