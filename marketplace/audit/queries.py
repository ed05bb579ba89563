"""Verification of the audit trail."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.audit.operations import GENESIS_HASH, compute_hash

_BATCH_SIZE = 1000


def find_first_broken_link(session: Session) -> int | None:
    """Verify the hash chain of the audit trail from the first row.

    :return: the id of the first row with a wrong hash or a wrong link to the previous row; none if the chain is intact
    """
    previous, after_id = GENESIS_HASH, 0
    entries = select(AuditLog.__table__).order_by(AuditLog.id).limit(_BATCH_SIZE)
    while rows := session.execute(entries.where(AuditLog.id > after_id)).all():
        for row in rows:
            if row.previous_hash != previous or row.hash != compute_hash(row._asdict()):
                return int(row.id)
            previous, after_id = row.hash, row.id
    return None
