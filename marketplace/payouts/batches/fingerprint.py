"""What a batch pays as of now, under a hash: officers approve that, and only that is sent."""

import hashlib
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

# The payee's account of today, not the one of the staging: whoever changes it changes what the batch pays.
_SELECT_PAYMENTS = Statement(
    text(
        """
        SELECT i.id::text, i.user_id::text, i.vendor_id::text, i.amount_minor, a.id::text, a.bank_code,
            a.account_number, a.recipient_code
        FROM payout_transfer_intents i
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL
        WHERE i.batch_id = :batch_id AND i.status <> 'cancelled'
        ORDER BY i.id
        """
    )
)


def compute_fingerprint(session: Session, *, batch_id: UUID) -> str:
    """Give the SHA-256 of what a batch pays: each payment, its payee, amount and bank account.

    It is over the batch's id and, by the payment's id, a JSON array of each payment's id, user, vendor, kobo, and
    the payee's current account by id, bank, number and recipient at the gateway.

    :param batch_id: the batch; the caller holds its lock where it matters that nothing changes
    :return: 64 lowercase hexadecimal digits
    """
    digest = hashlib.sha256(orjson.dumps(str(batch_id)))
    for row in _SELECT_PAYMENTS.tuples(session, batch_id=batch_id):
        digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()
