"""Void payouts that were never sent, and return the amounts to the payees' balances.

Officers void single payouts. The worker voids payouts with a bank account that was replaced after the approval.
"""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError
from marketplace.payouts import states, texts
from marketplace.payouts.accounting import Payout
from marketplace.payouts.transfers import apply_status


class PayoutMayBeInFlightError(ConflictError):
    """The payout may have been sent, or its batch has not been dispatched."""

    reason = "payout-may-be-in-flight"


class PayoutAlreadyFinalError(ConflictError):
    """The payout is in a final state."""

    reason = "payout-already-final"


def void_payout(session: Session, *, payout_id: UUID, note: str, act: Act) -> Payout:
    """Void a payout of a dispatched batch that was not sent, or is still unknown to the gateway after all polls.

    The amount returns to the payee's balance. If the gateway has sent the payout after all, the success is posted when
    the gateway reports it.

    :param note: for the audit log
    :raises NotFoundError: the payout does not exist
    :raises ConflictOfInterestError: the officer is the payee
    :raises PayoutAlreadyFinalError: the payout failed, was reversed or was cancelled
    :raises PayoutMayBeInFlightError: the payout may have been sent, or the batch was not dispatched
    """
    status, reference = apply_status.find_reference(session, payout_id=payout_id)
    _ensure_not_final(status)
    if reference is None:
        raise PayoutMayBeInFlightError(texts.PAYOUT_NOT_DISPATCHED)
    payout = apply_status.lock_payout(session, reference=reference)
    if payout.user_id == act.person_id:
        raise ConflictOfInterestError("This is your own payout, so another officer must void it.")
    _ensure_not_final(payout.status)
    # Polling has ended, and the gateway never knew the transfer.
    never_known = payout.status == states.UNKNOWN and payout.ask_at is None
    if not (_is_unsent(payout) or never_known):
        raise PayoutMayBeInFlightError(texts.PAYOUT_MAY_BE_IN_FLIGHT.format(status=payout.status))
    apply_status.mark_rejected(session, payout, refusal_status=None, reason=texts.FAILED_VOIDED, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="payout.give_up",
        target_type="payout",
        target_id=str(payout_id),
        before={"status": payout.status},
        after={"status": states.FAILED, "reference": payout.reference, "note": note},
    )
    return replace(payout, status=states.FAILED)


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


def void_payouts_to_replaced_accounts(session: Session, *, batch_id: UUID, now: datetime) -> int:
    """Void unsent payouts of a dispatched batch if the payee replaced the approved bank account.

    Payouts may only go to the approved account, which the payee no longer uses. The next batch pays to the new account.

    :return: the number of voided payouts
    """
    voided = 0
    for reference in _SELECT_UNSENT_TO_REPLACED_ACCOUNTS.scalars(session, batch_id=batch_id):
        payout = apply_status.lock_payout(session, reference=reference)
        # Another worker may have started the call before the replacement.
        if _is_unsent(payout):
            apply_status.mark_rejected(
                session, payout, refusal_status=None, reason=texts.FAILED_ACCOUNT_REPLACED, now=now
            )
            voided += 1
    return voided


def _is_unsent(payout: Payout) -> bool:
    return payout.status == states.PENDING and payout.sent_at is None


def _ensure_not_final(status: str) -> None:
    if status in (states.FAILED, states.REVERSED, states.CANCELLED):
        raise PayoutAlreadyFinalError(
            f"The payout is already {status}, and its amount is back in the payee's balance."
        )
