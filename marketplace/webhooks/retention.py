"""How long webhooks are kept: what they said of customers must go some day; that they were processed stays."""

from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

RETENTION = timedelta(days=90)
# What was never processed may be asked about, and replayed, for longer.
DEAD_LETTER_RETENTION = timedelta(days=365)

_DELETE_OLD_EVENTS = Statement(
    text(
        """
        WITH finished AS MATERIALIZED (
            SELECT id FROM webhook_inbox
            WHERE status IN ('processed', 'duplicate', 'ignored') AND finished_at <= :before
            ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
        ), dead AS MATERIALIZED (
            SELECT id FROM webhook_inbox WHERE status = 'dead' AND finished_at <= :dead_before
            ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
        ), old AS MATERIALIZED (
            SELECT id FROM finished UNION ALL SELECT id FROM dead LIMIT :limit
        ), letters AS (
            DELETE FROM dead_letter_webhooks WHERE inbox_id IN (SELECT id FROM old)
        )
        DELETE FROM webhook_inbox WHERE id IN (SELECT id FROM old)
        """
    )
)


def purge_events(session: Session, *, now: datetime, limit: int) -> int:
    """Delete webhooks whose time is up, with their dead letters.

    :param limit: at most so many
    :return: how many they were
    """
    return _DELETE_OLD_EVENTS.run(
        session, before=now - RETENTION, dead_before=now - DEAD_LETTER_RETENTION, limit=limit
    )
