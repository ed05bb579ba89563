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
from marketplace.payments.refunds.gateway_refund import PendingGatewayRefund
from marketplace.providers.gateway.errors import GatewayKeyRefusedError
from marketplace.providers.gateway.payments import GatewayRefund
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler


def _lease_refund(session: Session, payload: dict[str, Any]) -> PendingGatewayRefund | None:
    return gateway_refund.lease_refund(session, refund_id=UUID(payload["refundId"]), now=system_clock())


def _submit_refund(services: Services, found: PendingGatewayRefund | None) -> GatewayRefund | None:
    try:
        return gateway_refund.send_refund(services.gateway, found)
    except GatewayKeyRefusedError as error:
        # It is tried again, and what failed is rolled back: this stands by itself.
        services.database.in_transaction(
            gateway_alerts.raise_gateway_key_refused_alert, status=error.refused_with, now=services.clock()
        )
        raise


def _record_submission(
    session: Session, found: PendingGatewayRefund | None, told: GatewayRefund | None, now: datetime
) -> None:
    if found is None:
        return
    if told is None:
        gateway_refund.record_refund_unknown_to_gateway(session, found=found, now=now)
    else:
        gateway_refund.apply_gateway_status(session, refund_id=found.id, told=told, now=now)
    gateway_alerts.resolve_gateway_key_refused_alert(session, now=now)


def _load_refund(session: Session, payload: dict[str, Any]) -> dict[str, Any]:
    return polling.find_refund(session, refund_id=UUID(payload["refundId"]))


def _fetch_gateway_refunds(services: Services, found: dict[str, Any]) -> list[GatewayRefund]:
    return polling.fetch_status(services.gateway, found)


def _record_status(
    session: Session, found: dict[str, Any], known: list[GatewayRefund], now: datetime
) -> None:
    polling.record_status(session, found, known, now)


HANDLERS: Mapping[str, Handler | PhasedHandler[Any, Any]] = {
    create.SEND_TOPIC: PhasedHandler(read=_lease_refund, ask=_submit_refund, settle=_record_submission),
    refund_events.POLL_TOPIC: PhasedHandler(
        read=_load_refund, ask=_fetch_gateway_refunds, settle=_record_status
    ),
}
