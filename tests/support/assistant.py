"""A client of the assistant, and the control of the sandbox's language model."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import requests
from flask.testing import FlaskClient
from sqlalchemy import select

from marketplace.assistant.models import AssistantUsage
from marketplace.infra.db import Database
from tests.support.market import Bearer
from tests.support.purchases import make_person

STREAM = "/api/assistant/stream"
DAILY_TOKENS = 100_000
Events = list[tuple[str, dict[str, Any]]]


@dataclass
class Desk:
    """A client of the assistant, and the control of the language model."""

    client: FlaskClient
    database: Database
    bearer: Bearer
    controls: str

    def person(self, **columns: Any) -> UUID:
        """Add a person."""
        return self.database.in_transaction(make_person, **columns).id

    def post(self, path: str, user_id: UUID | None, body: Any, **headers: str) -> Any:
        """Send a request."""
        signed = self.bearer(user_id) if user_id else {}
        response = self.client.post(path, json=body, headers=signed | headers)
        response.get_data()  # an answer ends when it has been read
        return response

    def get(self, path: str, user_id: UUID, **query: Any) -> Any:
        """Read a resource."""
        return self.client.get(path, headers=self.bearer(user_id), query_string=query)

    def stream(self, user_id: UUID, question: str = "Hello", **body: Any) -> Any:
        """Ask the assistant, and return the response."""
        return self.post(STREAM, user_id, {"messages": [{"role": "user", "content": question}], **body})

    def ask(self, user_id: UUID, question: str = "Hello", **body: Any) -> Events:
        """Ask the assistant, and return the events."""
        response = self.stream(user_id, question, **body)
        assert response.status_code == 200, response.text
        return read_events(response.text)

    def use_tool(self, user_id: UUID, name: str, **arguments: Any) -> dict[str, Any]:
        """Let the language model call a tool, and return the result."""
        events = self.use_tools(user_id, (name, arguments))
        [result] = [data["result"] for kind, data in events if kind == "tool_result"]
        return result

    def use_tools(self, user_id: UUID, *calls: tuple[str, dict[str, Any]]) -> Events:
        """Let the language model call tools at once, and return the events."""
        self.script(*calls)
        return self.ask(user_id)

    def script(self, *calls: tuple[str, dict[str, Any]], text: str = "Here you are.") -> None:
        """Plan calls of tools and the text after them."""
        planned = [{"name": name, "arguments": arguments} for name, arguments in calls]
        self.plan(replies=[*([{"calls": planned}] if planned else []), {"text": text}])

    def plan(self, **values: Any) -> None:
        """Plan outcomes or replies of the language model."""
        requests.put(self.controls, json=values, timeout=10).raise_for_status()

    def prompts(self) -> list[Any]:
        """Return the bodies that reached the language model."""
        data: list[Any] = requests.get(self.controls, timeout=10).json()["data"]["prompts"]
        return data

    def usage(self, user_id: UUID) -> dict[str, tuple[int, bool]]:
        """Return calls by purpose, and whether tokens and cost were counted."""
        with self.database.reading() as session:
            rows = session.scalars(select(AssistantUsage).where(AssistantUsage.user_id == user_id)).all()
        return {
            row.purpose: (row.calls, min(row.prompt_tokens, row.completion_tokens, row.cost_micros) > 0)
            for row in rows
        }


def read_events(text: str) -> Events:
    """Read the events of a stream."""
    events: Events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
        if fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


def text_of(events: Events) -> str:
    """Return the text of an answer."""
    return "".join(data["text"] for name, data in events if name == "token")


def data_of(events: Events, name: str) -> list[dict[str, Any]]:
    """Return the data of the events with a name."""
    return [data for kind, data in events if kind == name]
