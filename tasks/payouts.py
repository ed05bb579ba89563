"""Tasks of payouts: they are sent by the gateway, and it is asked about those that its events leave unclear."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.kernel.clock import system_clock
from marketplace.payouts.transfers import polling, submit, transfer_events, void
from marketplace.payouts.transfers.submit import BulkTransferResult, LeasedPayouts
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler


def _lease_payouts(session: Session, payload: dict[str, Any]) -> LeasedPayouts:
    batch_id, now = UUID(payload["batchId"]), system_clock()
    void.void_payouts_to_replaced_accounts(session, batch_id=batch_id, now=now)
    return submit.lease_payouts(session, batch_id=batch_id, now=now)


def _submit_payouts(services: Services, found: LeasedPayouts) -> BulkTransferResult:
    return submit.submit_payouts(services.transfers, found.claimed)


def _record_results(
    session: Session, found: LeasedPayouts, answers: BulkTransferResult, now: datetime
) -> None:
    submit.record_submission(session, found=found, answers=answers, now=now)


def _load_transfer(session: Session, payload: dict[str, Any]) -> dict[str, Any]:
    return polling.find_transfer(session, reference=payload["reference"])


def _fetch_transfer(services: Services, found: dict[str, Any]) -> GatewayTransfer | None:
    return services.transfers.transfer(found["reference"])


def _record_status(
    session: Session, found: dict[str, Any], told: GatewayTransfer | None, now: datetime
) -> None:
    polling.record_status(session, found, told, now=now)


HANDLERS: Mapping[str, Handler | PhasedHandler[Any, Any]] = {
    submit.SEND_TOPIC: PhasedHandler(read=_lease_payouts, ask=_submit_payouts, settle=_record_results),
    transfer_events.POLL_TOPIC: PhasedHandler(
        read=_load_transfer, ask=_fetch_transfer, settle=_record_status
    ),
}
