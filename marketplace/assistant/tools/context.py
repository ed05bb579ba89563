"""The context of a tool's call, and the result."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller


@dataclass(frozen=True)
class ToolContext:
    """A person, without the permissions of a staff role, and a session that only reads."""

    session: Session
    caller: Caller
    now: datetime
    media_base_url: str


@dataclass(frozen=True)
class Proposal:
    """A request that the person may send after confirming the ``summary``."""

    summary: str
    method: str
    path: str
    body: dict[str, Any]
    idempotency_key: str
    expires_at: datetime


Result = dict[str, Any]
ReadingTool = Callable[[ToolContext, dict[str, Any]], Result]
ProposingTool = Callable[[ToolContext, dict[str, Any]], Proposal]
