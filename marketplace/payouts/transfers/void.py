"""Giving a payout up that certainly was not sent: it would wait for ever, and so its money goes back.

An officer does it; and of those whose payee has another bank account since they were approved, whoever is to send them.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError
from marketplace.payouts import states
from marketplace.payouts.transfers import apply_status, notifications

_SELECT_REFERENCE = Statement(
    text(
        """
        SELECT i.status, t.reference FROM payout_transfer_intents i LEFT JOIN payout_transfers t ON t.intent_id = i.id
        WHERE i.id = :payout_id
        """
    )
)

_SELECT_UNSENT_TO_REPLACED_ACCOUNTS = Statement(
    text(
        """
        SELECT t.reference FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id
            JOIN payout_accounts a ON a.id = i.account_id
        WHERE i.batch_id = :batch_id AND i.status = 'pending' AND t.sent_at IS NULL AND a.replaced_at IS NOT NULL
        ORDER BY i.id
        """
    )
)


class PayoutMayBeInFlightError(ConflictError):
    """The payout may have been sent, or its batch has not been dispatched."""

    reason = "payout-may-be-in-flight"


class PayoutAlreadyFinalError(ConflictError):
    """The payout is in a final state."""

    reason = "payout-already-final"


def void_payout(session: Session, *, payout_id: UUID, note: str, act: Act) -> dict[str, Any]:
    """Give up a payout of a dispatched batch that was not sent, or that the gateway never knew.

    Its money is the payee's again: the next batch pays a vendor's, a cash-out is asked for anew. Should the gateway
    have sent it after all, that is booked as such when it says so.

    :param note: why
    :return: its id, status and reference
    :raises NotFoundError: there is no such payout
    :raises ConflictOfInterestError: it is the officer's own
    :raises PayoutAlreadyFinalError: it failed, came back or was called off already
    :raises PayoutMayBeInFlightError: it was sent, or may have been; or its batch was not dispatched
    """
    payout = _SELECT_REFERENCE.first(session, payout_id=payout_id)
    if payout is None:
        raise NotFoundError("There is no such payout.")
    _ensure_not_final(payout["status"])
    if payout["reference"] is None:
        raise PayoutMayBeInFlightError(
            "The payout's batch was not dispatched: reject it, or take the payout out of it."
        )
    row = apply_status.lock_payout(session, reference=payout["reference"])
    if row["user_id"] == act.person_id:
        raise ConflictOfInterestError("It is your own payout: another officer has to see to it.")
    _ensure_not_final(row["status"])
    # The gateway was asked for the last time, and did not know it.
    never_known = row["status"] == states.UNKNOWN and row["ask_at"] is None
    if not (_is_unsent(row) or never_known):
        raise PayoutMayBeInFlightError(
            f"The payout is {row['status']}, and was sent or may have been. Have the gateway asked about it; what it"
            " does not know after five days can be given up."
        )
    apply_status.mark_rejected(session, row, refusal_status=None, reason=notifications.VOIDED, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="payout.give_up",
        target_type="payout",
        target_id=str(payout_id),
        before={"status": row["status"]},
        after={"status": states.FAILED, "reference": row["reference"], "note": note},
    )
    return {"id": payout_id, "status": states.FAILED, "reference": row["reference"]}


def void_payouts_to_replaced_accounts(session: Session, *, batch_id: UUID, now: datetime) -> int:
    """Give up what was not sent of a batch and was approved for an account that was replaced since.

    It may go to no other account than was approved, and to that one the payee wants it no more. The next batch pays it
    to the account that they have then.

    :param batch_id: of a batch that was dispatched
    :param now: when
    :return: how many
    """
    voided = 0
    for payout in _SELECT_UNSENT_TO_REPLACED_ACCOUNTS.all(session, batch_id=batch_id):
        row = apply_status.lock_payout(session, reference=payout["reference"])
        # Whoever had it locked may have begun its call, before the account was replaced.
        if _is_unsent(row):
            apply_status.mark_rejected(
                session, row, refusal_status=None, reason=notifications.ACCOUNT_REPLACED, now=now
            )
            voided += 1
    return voided


def _is_unsent(row: dict[str, Any]) -> bool:
    return row["status"] == states.PENDING and row["sent_at"] is None


def _ensure_not_final(status: str) -> None:
    if status in (states.FAILED, states.REVERSED, states.CANCELLED):
        raise PayoutAlreadyFinalError(
            f"The payout is {status} already: its money is back in its payee's balance."
        )
