"""Tasks of payouts: they are sent by the gateway, and it is asked about those that its events leave unclear."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.kernel.clock import system_clock
from marketplace.payouts.transfers import polling, submit, transfer_events, void
from marketplace.payouts.transfers.submit import Answers, ToSend
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.services import Services
from tasks.phased_handler import Phased


def _claim(session: Session, payload: dict[str, Any]) -> ToSend:
    batch_id, now = UUID(payload["batchId"]), system_clock()
    void.give_up_replaced(session, batch_id=batch_id, now=now)
    return submit.claim(session, batch_id=batch_id, now=now)


def _send(services: Services, found: ToSend) -> Answers:
    return submit.send(services.transfers, found.claimed)


def _note(session: Session, found: ToSend, answers: Answers, now: datetime) -> None:
    submit.note(session, found=found, answers=answers, now=now)


def _find(session: Session, payload: dict[str, Any]) -> dict[str, Any]:
    return polling.find(session, reference=payload["reference"])


def _ask_about(services: Services, found: dict[str, Any]) -> GatewayTransfer | None:
    return services.transfers.transfer(found["reference"])


def _take_in(session: Session, found: dict[str, Any], told: GatewayTransfer | None, now: datetime) -> None:
    polling.note(session, found, told, now=now)


HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {
    submit.SEND_TOPIC: Phased(read=_claim, ask=_send, settle=_note),
    transfer_events.ASK_TOPIC: Phased(read=_find, ask=_ask_about, settle=_take_in),
}
