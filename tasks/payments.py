"""Tasks of payments: refunds are sent by the gateway, and it is asked about those that its events leave unclear."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import Handler
from marketplace.kernel.clock import system_clock
from marketplace.payments import gateway_alerts
from marketplace.payments.refunds import create, gateway_refund, polling, refund_events
from marketplace.payments.refunds.gateway_refund import KeyRefusedError, ToSend
from marketplace.providers.gateway.payments import GatewayRefund
from marketplace.services import Services
from tasks.phased_handler import Phased


def _read(session: Session, payload: dict[str, Any]) -> ToSend | None:
    return gateway_refund.claim(session, refund_id=UUID(payload["refundId"]), now=system_clock())


def _ask(services: Services, found: ToSend | None) -> GatewayRefund | None:
    try:
        return gateway_refund.send(services.gateway, found)
    except KeyRefusedError as error:
        # It is tried again, and what failed is rolled back: this stands by itself.
        services.database.in_transaction(
            gateway_alerts.gateway_key_refused, status=error.refused_with, now=services.clock()
        )
        raise


def _settle(session: Session, found: ToSend | None, told: GatewayRefund | None, now: datetime) -> None:
    if found is None:
        return
    if told is None:
        gateway_refund.note_unknown(session, found=found, now=now)
    else:
        gateway_refund.settle(session, refund_id=found.id, told=told, now=now)
    gateway_alerts.gateway_key_taken(session, now=now)


def _find(session: Session, payload: dict[str, Any]) -> dict[str, Any]:
    return polling.find(session, refund_id=UUID(payload["refundId"]))


def _ask_about(services: Services, found: dict[str, Any]) -> list[GatewayRefund]:
    return polling.ask(services.gateway, found)


def _note(session: Session, found: dict[str, Any], known: list[GatewayRefund], now: datetime) -> None:
    polling.note(session, found, known, now)


HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {
    create.SEND_TOPIC: Phased(read=_read, ask=_ask, settle=_settle),
    refund_events.ASK_TOPIC: Phased(read=_find, ask=_ask_about, settle=_note),
}
