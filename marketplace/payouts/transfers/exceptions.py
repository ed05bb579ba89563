"""Transfers that failed, came back, or are none of ours: logged once each, raised, and resolved by finance."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import hold_alert, raise_alert, resolve_alert
from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError
from marketplace.payouts.models import PayoutException
from marketplace.providers.gateway.payloads import GatewayTransfer

_INSERT = Statement(
    insert(PayoutException)
    .on_conflict_do_nothing(index_elements=["gateway_transfer_id", "outcome"])
    .returning(PayoutException.id),
    columns=("gateway_transfer_id", "reference", "outcome", "amount_minor", "currency", "created_at"),
)

_LOCK = Statement(
    text(
        """
        SELECT e.id, e.outcome, e.reference, e.resolved_at, i.user_id AS payee_id FROM payout_exceptions e
            LEFT JOIN payout_transfers t ON t.reference = e.reference
            LEFT JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE e.id = :exception_id FOR NO KEY UPDATE OF e
        """
    )
)
_RESOLVE = Statement(
    text(
        """
        UPDATE payout_exceptions SET resolved_at = :now, resolved_by = :officer_id, resolution_note = :note
        WHERE id = :exception_id
        """
    )
)
_STRANGERS_LEFT = Statement(
    text(
        """
        SELECT 1 FROM payout_exceptions e WHERE e.resolved_at IS NULL AND e.outcome IN ('failed', 'reversed')
            AND NOT EXISTS (SELECT 1 FROM payout_transfers t WHERE t.reference = e.reference)
        LIMIT 1
        """
    )
)
# Whoever shares the gateway's account with us may have any number of transfers fail.
STRANGERS = "gateway-transfers"
_SEEN_TO = "Finance has seen to it."


class AlreadyResolvedError(ConflictError):
    """An officer has seen to it already."""


def log_exception(
    session: Session, *, told: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """Log that a payout failed or came back, and alert whoever is on call, once for each."""
    _log(
        session,
        told,
        outcome,
        identifier=kinds.PAYOUT_EXCEPTION,
        title="A transfer failed or came back",
        now=now,
    )


def log_stranger(
    session: Session, *, told: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """Log that a transfer which is none of ours failed or came back: one alert for all of them."""
    _log(
        session,
        told,
        outcome,
        identifier=kinds.TRANSFER_UNKNOWN_FAILED,
        title="A transfer that is none of ours failed or came back",
        subject=STRANGERS,
        now=now,
    )


def log_unexpected(session: Session, *, told: GatewayTransfer, now: datetime) -> None:
    """Log that money left which this service did not send, and alert whoever is on call, once."""
    _log(
        session,
        told,
        "unexpected",
        identifier=kinds.TRANSFER_UNKNOWN,
        title="The gateway made a transfer that is none of ours",
        now=now,
    )


def _log(
    session: Session,
    told: GatewayTransfer,
    outcome: str,
    *,
    identifier: str,
    title: str,
    subject: str | None = None,
    now: datetime,
) -> None:
    row = _INSERT.first(
        session,
        gateway_transfer_id=told.id,
        reference=told.reference,
        outcome=outcome,
        amount_minor=told.amount_minor,
        currency=told.currency,
        created_at=now,
    )
    if row is None:
        return
    raise_alert(
        session,
        identifier=identifier,
        # Ours, not the gateway's number: an alert would take that for a number of somebody's.
        subject=subject or _about(row["id"]),
        title=title,
        facts={
            "payoutExceptionId": row["id"],
            "reference": told.reference,
            "outcome": outcome,
            "amountMinor": told.amount_minor,
            "currency": told.currency,
        },
        now=now,
    )


def resolve(
    session: Session, *, exception_id: UUID, note: str, officer: Caller, actor: AuditActor, now: datetime
) -> dict[str, Any]:
    """Note what an officer did about a transfer that went wrong.

    It moves no money: that was booked when it went wrong.

    :param note: what was done
    :param officer: who; not its payee
    :param actor: the same, for the audit
    :param now: when
    :return: its id, status and note
    :raises NotFoundError: there is no such exception
    :raises ForbiddenError: it was the officer's own payout
    :raises AlreadyResolvedError: an officer has seen to it already
    """
    row = _LOCK.first(session, exception_id=exception_id)
    if row is None:
        raise NotFoundError("There is no such exception.")
    if row["payee_id"] == officer.id:
        raise ForbiddenError("It was your own payout: another officer has to see to it.")
    if row["resolved_at"] is not None:
        raise AlreadyResolvedError("The exception is resolved already.")
    _RESOLVE.run(session, exception_id=exception_id, officer_id=officer.id, note=note, now=now)
    resolve_alert(
        session,
        identifier=(kinds.PAYOUT_EXCEPTION, kinds.TRANSFER_UNKNOWN),
        subject=_about(exception_id),
        note=_SEEN_TO,
        now=now,
    )
    if row["payee_id"] is None:
        _end_with_last_stranger(session, now=now)
    record(
        session,
        actor=actor,
        action="payout_exception.resolve",
        target_type="payout_exception",
        target_id=str(exception_id),
        before={"status": "open"},
        after={"status": "resolved", "outcome": row["outcome"], "reference": row["reference"], "note": note},
        now=now,
    )
    return {"id": exception_id, "status": "resolved", "resolutionNote": note, "resolvedAt": now}


def _end_with_last_stranger(session: Session, *, now: datetime) -> None:
    about = {"identifier": kinds.TRANSFER_UNKNOWN_FAILED, "subject": STRANGERS}
    if hold_alert(session, **about) and _STRANGERS_LEFT.first(session) is None:
        resolve_alert(session, **about, note=_SEEN_TO, now=now)


def _about(exception_id: UUID) -> str:
    return f"payout-exception:{exception_id}"
