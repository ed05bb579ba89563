"""Payouts in transit for tests: dispatched, sent and reported by the gateway."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts.transfers import apply_status, dispatch as transfer_dispatch
from marketplace.providers.gateway.payloads import GatewayTransfer
from tests.support.finance import act_of, make_officer
from tests.support.payouts import Payee, approved_batch
from tests.support.purchases import NOW


def dispatched_batch(session: Session, payees: Sequence[Payee]) -> UUID:
    """Stage a batch, approve the batch by two officers and dispatch by a third officer."""
    batch_id = approved_batch(session, payees)
    dispatch(session, batch_id)
    return batch_id


def dispatch(session: Session, batch_id: UUID, **values: Any) -> transfer_dispatch.DispatchedPayouts:
    """Dispatch an approved batch as an officer."""
    officer = values.pop("officer", None) or make_officer(session)
    return transfer_dispatch.dispatch_batch(session, batch_id=batch_id, act=act_of(officer, **values))


def transfers_in(session: Session, batch_id: UUID) -> list[dict[str, Any]]:
    """List a batch's transfers with payouts in sending order."""
    rows = session.execute(
        text(
            """
            SELECT t.*, i.status AS payout_status, i.amount_minor, i.failure_reason, i.user_id, i.stalled_at
            FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
            WHERE i.batch_id = :id ORDER BY i.id
            """
        ),
        {"id": batch_id},
    )
    return [dict(row) for row in rows.mappings()]


def statuses_in(session: Session, batch_id: UUID) -> list[tuple[str, str]]:
    """List the status of each payout and transfer of a batch."""
    return [(row["payout_status"], row["status"]) for row in transfers_in(session, batch_id)]


def batch_status(session: Session, batch_id: UUID) -> str:
    """Return a batch's status."""
    row = session.execute(text("SELECT status FROM payout_batches WHERE id = :id"), {"id": batch_id}).one()
    return str(row.status)


def transfer_report(transfer: dict[str, Any], status: str, **values: Any) -> GatewayTransfer:
    """Build the gateway's report of a transfer."""
    given: dict[str, Any] = {
        "id": str(transfer["id"].int % 10**12),
        "reference": transfer["reference"],
        "amount_minor": transfer["amount_minor"],
        "currency": "NGN",
        "status": status,
        "transfer_code": f"TRF_{transfer['id'].hex}",
    }
    return GatewayTransfer(**given | values)


def handle_transfer_report(
    session: Session, transfer: dict[str, Any], outcome: str, *, now: datetime = NOW, **values: Any
) -> None:
    """Process the gateway's event about a transfer."""
    apply_status.handle_transfer_event(
        session, outcome=outcome, transfer=transfer_report(transfer, outcome, **values), now=now
    )


def apply_status_response(session: Session, transfer: dict[str, Any], status: str, **values: Any) -> str:
    """Apply the gateway's response to a status request for a transfer."""
    row = apply_status.lock_payout(session, reference=transfer["reference"])
    return apply_status.apply_gateway_status(
        session, row, transfer_report(transfer, status, **values), now=NOW
    )


def exceptions_of(session: Session, reference: str) -> list[tuple[str, int]]:
    """List outcome and amount of the exceptions of a reference, oldest first."""
    rows = session.execute(
        text("SELECT outcome, amount_minor FROM payout_exceptions WHERE reference = :reference ORDER BY id"),
        {"reference": reference},
    )
    return [tuple(row) for row in rows]


def unique_transfer_number() -> str:
    """Return a unique gateway transfer number."""
    return str(uuid4().int % 10**12)
