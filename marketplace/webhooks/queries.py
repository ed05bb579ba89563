"""The inbox and the dead letters, as operators and staff look at them."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.kernel.redaction import redact_text

# A second delivery of what was processed is ignored, as is what has no effect here.
STATES: dict[str, tuple[str, ...]] = {
    "waiting": ("received",),
    "retrying": ("retrying",),
    "processed": ("processed",),
    "ignored": ("ignored", "duplicate"),
    "dead": ("dead",),
}
PROVIDERS = ("gateway", "messaging")
COUNT_WINDOW_HOURS = 24  # what is over is counted for so long: there is no end of it
_STATE_OF = {status: state for state, statuses in STATES.items() for status in statuses}
_MAX_TEXT_LENGTH = 200
_MAX_ITEMS = 20
_MAX_FIELDS = 100
_MAX_DEPTH = 8
# Of a payload these are shown, wherever they stand in it: nothing of them tells who somebody is.
_SHOWN_FIELDS = frozenset(
    """
    event id domain status reference refund_reference transaction_reference transfer_code amount fees currency channel
    gateway_response source paid_at created_at updated_at settlement orderId checkoutId category due_at
    resolution object field messaging_product timestamp type
    """.split()  # noqa: SIM905 - a list of so many quoted words reads worse
)

_COLUMNS = """
    i.id, i.provider, i.status, i.event_type,
    i.dedupe_id, i.attempts, i.received_at, i.due_at, i.finished_at, i.last_error
"""
_FILTER_CONDITIONS = """
    (CAST(:statuses AS text[]) IS NULL OR i.status = ANY(:statuses))
        AND (CAST(:event_type AS text) IS NULL OR i.event_type = :event_type)
        AND (CAST(:provider AS text) IS NULL OR i.provider = :provider)
        AND (CAST(:since AS timestamptz) IS NULL OR i.received_at >= :since)
        AND (CAST(:error_like AS text) IS NULL OR i.last_error ILIKE :error_like)
"""
_SELECT_EVENTS = Statement(
    text(
        f"""
        SELECT {_COLUMNS} FROM webhook_inbox i
        WHERE {_FILTER_CONDITIONS}
            AND (CAST(:after_time AS timestamptz) IS NULL
                OR (i.received_at, i.id) < (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid)))
        ORDER BY i.received_at DESC, i.id DESC LIMIT :most
        """
    )
)
# Those that fail each time must not keep the others from their turn: a replay puts them behind.
_SELECT_EVENTS_TO_REPLAY = Statement(
    text(
        f"""
        SELECT {_COLUMNS}, count(*) OVER () AS matching FROM webhook_inbox i WHERE {_FILTER_CONDITIONS}
        ORDER BY i.due_at > i.finished_at, i.due_at, i.received_at, i.id LIMIT :most
        """
    )
)
_COUNT_FAILURE_CAUSES = Statement(
    text(
        f"""
        SELECT i.event_type, i.last_error, count(*) AS events,
            min(i.received_at) AS first_at, max(i.received_at) AS last_at
        FROM webhook_inbox i WHERE {_FILTER_CONDITIONS}
        GROUP BY i.event_type, i.last_error ORDER BY events DESC, i.event_type, i.last_error LIMIT :most
        """
    )
)
_SELECT_EVENT = Statement(
    text(
        f"""
        SELECT {_COLUMNS}, d.died_at, d.replayed_at, i.body
        FROM webhook_inbox i LEFT JOIN dead_letter_webhooks d ON d.inbox_id = i.id WHERE i.id = :inbox_id
        """
    )
)
# Each by an index of its own, so that it may be asked often.
_COUNT_BY_STATUS = Statement(
    text(
        """
        SELECT status, count(*) AS number FROM webhook_inbox
        WHERE status IN ('received', 'retrying', 'dead') GROUP BY status
        UNION ALL
        SELECT status, count(*) FROM webhook_inbox
        WHERE received_at >= :since AND status IN ('processed', 'ignored', 'duplicate') GROUP BY status
        """
    )
)


@dataclass(frozen=True)
class WebhookEventFilters:
    """Which deliveries are wanted; what is none is not asked for.

    :param state: of ``STATES``
    :param event_type: such as charge.success
    :param provider: of ``PROVIDERS``
    :param since: those that came from then on
    :param error: what the last error holds, in any case of letters
    """

    state: str | None = None
    event_type: str | None = None
    provider: str | None = None
    since: datetime | None = None
    error: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Give the parameters of a statement."""
        filters = asdict(self)
        state, error = filters.pop("state"), filters.pop("error")
        return filters | {
            "statuses": list(STATES[state]) if state else None,
            "error_like": f"%{_escape_like(error)}%" if error else None,
        }


def _escape_like(text_to_match: str) -> str:
    """Write a text so that LIKE takes none of its characters for a wildcard."""
    return text_to_match.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def list_events(session: Session, *, filters: WebhookEventFilters, limit: int) -> list[dict[str, Any]]:
    """List deliveries, the latest first.

    :param limit: how many at the most
    """
    return _SELECT_EVENTS.all(session, **filters.parameters(), after_time=None, after_id=None, most=limit)


def list_dead_events(
    session: Session, *, filters: WebhookEventFilters, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """List dead deliveries as they are to be replayed: those whose last try is longest ago first.

    Those that were not replayed since they died come before all others.

    :param filters: which; their state counts for nothing
    :param limit: how many at the most
    :return: they, and how many match altogether
    """
    rows = _SELECT_EVENTS_TO_REPLAY.all(session, **replace(filters, state="dead").parameters(), most=limit)
    matching = rows[0]["matching"] if rows else 0
    for row in rows:
        del row["matching"]
    return rows, matching


def list_failure_causes(
    session: Session, *, filters: WebhookEventFilters, limit: int
) -> list[dict[str, Any]]:
    """Count deliveries by their type and last error, the most frequent first.

    :param limit: how many causes at the most
    """
    return _COUNT_FAILURE_CAUSES.all(session, **filters.parameters(), most=limit)


def list_events_for_staff(
    session: Session, *, filters: WebhookEventFilters, page: PageRequest, now: datetime
) -> Page:
    """List deliveries, the latest first, and count them by state; in two queries.

    :param page: which page
    :param now: the time of the request
    """
    after_time, after_id = page.after("time", "id")
    rows = _SELECT_EVENTS.all(
        session,
        **filters.parameters(),
        after_time=after_time,
        after_id=after_id,
        most=page.limit + 1,
    )
    listed = page_of(
        rows, request=page, position_of=lambda row: [row["received_at"].isoformat(), str(row["id"])]
    )
    counts = count_by_state(session, now=now)
    return Page(
        [_view(row) for row in listed.items],
        listed.limit,
        listed.next_position,
        extra_meta={"counts": counts},
    )


def count_by_state(session: Session, *, now: datetime) -> dict[str, int]:
    """Count deliveries by state; those that are over, of the last 24 hours.

    :param now: the time of the request
    """
    counts = dict.fromkeys(STATES, 0)
    for row in _COUNT_BY_STATUS.all(session, since=now - timedelta(hours=COUNT_WINDOW_HOURS)):
        counts[_STATE_OF[row["status"]]] += row["number"]
    return counts


def fetch_event(session: Session, *, inbox_id: UUID) -> dict[str, Any]:
    """Give a delivery with its body.

    :raises NotFoundError: there is none of that id
    """
    row = _SELECT_EVENT.first(session, inbox_id=inbox_id)
    if row is None:
        raise NotFoundError("There is no such webhook event.")
    row["body"] = bytes(row["body"])
    return row


def fetch_event_for_staff(session: Session, *, inbox_id: UUID) -> dict[str, Any]:
    """Give a delivery, and of its payload what tells nothing of a person.

    :raises NotFoundError: there is none of that id
    """
    row = fetch_event(session, inbox_id=inbox_id)
    return _view(row) | {
        "diedAt": row["died_at"],
        "replayedAt": row["replayed_at"],
        "bodyBytes": len(row["body"]),
        "payload": _shown_payload(
            row["body"], _SHOWN_FIELDS if row["provider"] == "gateway" else _SHOWN_FIELDS - {"id"}
        ),
    }


def state_of(status: str) -> str:
    """Give the state of ``STATES`` that a row's status belongs to."""
    return _STATE_OF[status]


def disclosable_event_id(row: dict[str, Any]) -> str | None:
    """Give the id of an event that may be told: a message's own is made of its sender's number."""
    event_id: str | None = row["dedupe_id"]
    return event_id if row["provider"] == "gateway" else None


def _view(row: dict[str, Any]) -> dict[str, Any]:
    state = _STATE_OF[row["status"]]
    return {
        "id": row["id"],
        "provider": row["provider"],
        "type": row["event_type"],
        "eventId": disclosable_event_id(row),
        "state": state,
        "duplicate": row["status"] == "duplicate",
        "attempts": row["attempts"],
        "receivedAt": row["received_at"],
        "dueAt": row["due_at"] if state in ("waiting", "retrying") else None,
        "finishedAt": row["finished_at"],
        "error": row["last_error"],
    }


def _shown_payload(body: bytes, names: frozenset[str]) -> dict[str, Any] | None:
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    disclosed = _copy_shown_fields(payload, names)
    return disclosed if isinstance(disclosed, dict) else None


def _copy_shown_fields(value: Any, names: frozenset[str], depth: int = 0) -> Any:
    """Copy what may be shown of a payload: named fields, and the objects and lists that they stand in."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, dict):
        parts = {
            name: _copy_shown_fields(item, names, depth + 1)
            for name, item in list(value.items())[:_MAX_FIELDS]
        }
        return {
            name: part
            for name, part in parts.items()
            if (part if isinstance(part, dict | list) else name in names and part is not None)
        }
    if isinstance(value, list):
        parts_of = [_copy_shown_fields(item, names, depth + 1) for item in value[:_MAX_ITEMS]]
        return [part for part in parts_of if isinstance(part, dict) and part]
    return redact_text(value)[:_MAX_TEXT_LENGTH] if isinstance(value, str) else value
