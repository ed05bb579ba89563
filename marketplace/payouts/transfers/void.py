"""Giving a payout up that certainly was not sent: it would wait for ever, and so its money goes back.

An officer does it; and of those whose payee has another bank account since they were approved, whoever is to send them.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError
from marketplace.payouts import states
from marketplace.payouts.transfers import apply_status, notifications

_REFERENCE = Statement(
    text(
        """
        SELECT i.status, t.reference FROM payout_transfer_intents i LEFT JOIN payout_transfers t ON t.intent_id = i.id
        WHERE i.id = :payout_id
        """
    )
)

_REPLACED = Statement(
    text(
        """
        SELECT t.reference FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id
            JOIN payout_accounts a ON a.id = i.account_id
        WHERE i.batch_id = :batch_id AND i.status = 'pending' AND t.sent_at IS NULL AND a.replaced_at IS NOT NULL
        ORDER BY i.id
        """
    )
)


class MayBeSentError(ConflictError):
    """The payout was sent, or may have been, or its batch was not dispatched."""


class PayoutOverError(ConflictError):
    """The payout is over: there is nothing of it to give up."""


def give_up(
    session: Session, *, payout_id: UUID, note: str, officer: Caller, actor: AuditActor, now: datetime
) -> dict[str, Any]:
    """Give up a payout of a dispatched batch that was not sent, or that the gateway never knew.

    Its money is the payee's again: the next batch pays a vendor's, a cash-out is asked for anew. Should the gateway
    have sent it after all, that is booked as such when it says so.

    :param note: why
    :param officer: who; not its payee
    :param actor: the same, for the audit
    :param now: when
    :return: its id, status and reference
    :raises NotFoundError: there is no such payout
    :raises ForbiddenError: it is the officer's own
    :raises PayoutOverError: it failed, came back or was called off already
    :raises MayBeSentError: it was sent, or may have been; or its batch was not dispatched
    """
    found = _REFERENCE.first(session, payout_id=payout_id)
    if found is None:
        raise NotFoundError("There is no such payout.")
    _refuse_over(found["status"])
    if found["reference"] is None:
        raise MayBeSentError(
            "The payout's batch was not dispatched: reject it, or take the payout out of it."
        )
    row = apply_status.lock(session, reference=found["reference"])
    if row["user_id"] == officer.id:
        raise ForbiddenError("It is your own payout: another officer has to see to it.")
    _refuse_over(row["status"])
    # The gateway was asked for the last time, and did not know it.
    never_known = row["status"] == states.UNKNOWN and row["ask_at"] is None
    if not (_is_unsent(row) or never_known):
        raise MayBeSentError(
            f"The payout is {row['status']}, and was sent or may have been. Have the gateway asked about it; what it"
            " does not know after five days can be given up."
        )
    apply_status.refuse(session, row, refused_with=None, reason=notifications.GIVEN_UP, now=now)
    record(
        session,
        actor=actor,
        action="payout.give_up",
        target_type="payout",
        target_id=str(payout_id),
        before={"status": row["status"]},
        after={"status": states.FAILED, "reference": row["reference"], "note": note},
        now=now,
    )
    return {"id": payout_id, "status": states.FAILED, "reference": row["reference"]}


def give_up_replaced(session: Session, *, batch_id: UUID, now: datetime) -> int:
    """Give up what was not sent of a batch and was approved for an account that was replaced since.

    It may go to no other account than was approved, and to that one the payee wants it no more. The next batch pays it
    to the account that they have then.

    :param batch_id: of a batch that was dispatched
    :param now: when
    :return: how many
    """
    given_up = 0
    for found in _REPLACED.all(session, batch_id=batch_id):
        row = apply_status.lock(session, reference=found["reference"])
        # Whoever had it locked may have begun its call, before the account was replaced.
        if _is_unsent(row):
            apply_status.refuse(
                session, row, refused_with=None, reason=notifications.ACCOUNT_REPLACED, now=now
            )
            given_up += 1
    return given_up


def _is_unsent(row: dict[str, Any]) -> bool:
    return row["status"] == states.PENDING and row["sent_at"] is None


def _refuse_over(status: str) -> None:
    if status in (states.FAILED, states.REVERSED, states.CANCELLED):
        raise PayoutOverError(f"The payout is {status} already: its money is back in its payee's balance.")
