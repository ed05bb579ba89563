"""Whether the audit trail is as it was written."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import GENESIS_HASH, compute_hash
from marketplace.infra.db import Statement

_BATCH_SIZE = 1000
_SELECT_ENTRIES = Statement(
    text(
        """
        SELECT id, at, actor_id, actor, action, target_type, target_id, ip_address, user_agent, before, after,
            previous_hash, hash
        FROM audit_logs WHERE id > :after_id ORDER BY id LIMIT :most
        """
    )
)


def find_first_broken_link(session: Session) -> int | None:
    """Walk the chain from its start.

    :return: the id of the first row whose hash, or whose link to the row before, is not what it must be;
        none if the chain is whole
    """
    previous, after_id = GENESIS_HASH, 0
    while rows := _SELECT_ENTRIES.all(session, after_id=after_id, most=_BATCH_SIZE):
        for row in rows:
            if row["previous_hash"] != previous or row["hash"] != compute_hash(row):
                broken: int = row["id"]
                return broken
            previous, after_id = row["hash"], row["id"]
    return None
