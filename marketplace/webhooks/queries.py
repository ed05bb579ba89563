"""The inbox and the dead letters, as operators look at them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import NotFoundError

_COLUMNS = """
    i.id, i.provider, i.status, i.event_type, i.dedupe_id, i.attempts, i.received_at, i.due_at, i.finished_at,
    i.last_error
"""
_LIST = Statement(
    text(
        f"""
        SELECT {_COLUMNS} FROM webhook_inbox i
        WHERE (CAST(:status AS text) IS NULL OR i.status = :status)
            AND (CAST(:event_type AS text) IS NULL OR i.event_type = :event_type)
            AND (CAST(:since AS timestamptz) IS NULL OR i.received_at >= :since)
        ORDER BY i.received_at DESC, i.id DESC LIMIT :most
        """  # noqa: S608 - our own columns
    )
)
_SHOW = Statement(text(f"SELECT {_COLUMNS}, i.body FROM webhook_inbox i WHERE i.id = :inbox_id"))  # noqa: S608 - our own columns


def list_events(
    session: Session, *, status: str | None, event_type: str | None, since: datetime | None, most: int
) -> list[dict[str, Any]]:
    """This function will list deliveries, the latest first.

    :param status: received, retrying, processed, duplicate, ignored or dead; none for all
    :param event_type: such as charge.success; none for all
    :param since: those that came from then on; none for all
    :param most: how many at the most
    """
    return _LIST.all(session, status=status, event_type=event_type, since=since, most=most)


def show_event(session: Session, *, inbox_id: UUID) -> dict[str, Any]:
    """This function will give a delivery with its body.

    :raises NotFoundError: there is none of that id
    """
    row = _SHOW.first(session, inbox_id=inbox_id)
    if row is None:
        raise NotFoundError("There is no such webhook event.")
    row["body"] = bytes(row["body"])
    return row
