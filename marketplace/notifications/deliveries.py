"""What became of messages to people: each channel's word is kept, and an earlier one never undoes a later one."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

# In this order, whatever order they come in. That somebody has it outweighs that a try failed.
STATUS_ORDER = ("queued", "sent", "failed", "delivered", "read")
# What a provider tells; the first is our own.
PROVIDER_STATUSES = frozenset(STATUS_ORDER[1:])

_UPDATE_STATUS = Statement(
    text(
        """
        WITH found AS (
            SELECT id, status FROM notification_delivery_logs
            WHERE provider_message_id = :provider_message_id FOR NO KEY UPDATE
        ), noted AS (
            UPDATE notification_delivery_logs d SET status = :status, status_at = :at, updated_at = :now,
                error_code = coalesce(:error_code, d.error_code)
            FROM found
            WHERE d.id = found.id
                AND array_position(CAST(:order AS text[]), :status)
                    > array_position(CAST(:order AS text[]), found.status)
            RETURNING d.id
        )
        SELECT EXISTS (SELECT FROM noted) AS noted FROM found
        """
    )
)


def record_status(
    session: Session,
    *,
    provider_message_id: str,
    status: str,
    error_code: str | None,
    at: datetime,
    now: datetime,
) -> bool | None:
    """Note what a provider tells of a message.

    :param provider_message_id: the provider's id of the message
    :param status: of TOLD
    :param error_code: the provider's, of one that failed
    :param at: when it came to that, as the provider says
    :param now: the time
    :return: whether that is news; none if no message of ours has this id
    """
    row = _UPDATE_STATUS.first(
        session,
        provider_message_id=provider_message_id,
        status=status,
        error_code=error_code,
        at=at,
        now=now,
        order=list(STATUS_ORDER),
    )
    return None if row is None else bool(row["noted"])
