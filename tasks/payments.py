"""Background tasks of payments: send and poll refunds, expire unpaid orders, and offset buyer debts."""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.payments import gateway_alerts
from marketplace.payments.intents import expiry
from marketplace.payments.refunds import buyer_accounts, create, gateway_refund, gateway_reports
from marketplace.payments.refunds.gateway_refund import PendingGatewayRefund
from marketplace.providers.gateway.client import GatewayKeyRefusedError
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.services import Services
from tasks.registry import QueueSweeper, periodic, phased_handler


@phased_handler(create.SEND_TOPIC)
def submit_refund(services: Services, payload: dict[str, Any], now: datetime) -> LastPhase:
    """Send a refund through the gateway."""
    pending_refund = services.database.in_transaction(
        gateway_refund.lease_refund, refund_id=UUID(payload["refundId"]), now=now
    )
    try:
        reported = gateway_refund.send_refund(services.gateway, pending_refund)
    except GatewayKeyRefusedError as error:
        # The task fails and is rolled back, so the alert needs a transaction of its own.
        services.database.in_transaction(
            gateway_alerts.raise_gateway_key_refused_alert, status=error.refused_status, now=services.clock()
        )
        raise
    return partial(_record_submission, pending_refund=pending_refund, reported=reported)


def _record_submission(
    session: Session,
    *,
    pending_refund: PendingGatewayRefund | None,
    reported: GatewayRefund | None,
    now: datetime,
) -> None:
    if pending_refund is None:
        return
    if reported is None:
        gateway_refund.record_refund_unknown_to_gateway(session, pending_refund=pending_refund, now=now)
    else:
        gateway_refund.apply_gateway_status(session, refund_id=pending_refund.id, reported=reported, now=now)
    gateway_alerts.resolve_gateway_key_refused_alert(session, now=now)


@phased_handler(create.POLL_TOPIC)
def poll_refund(services: Services, payload: dict[str, Any], _now: datetime) -> LastPhase:
    """Fetch a refund's status from the gateway."""
    refund = services.database.in_transaction(
        gateway_reports.find_refund, refund_id=UUID(payload["refundId"])
    )
    attempts = gateway_reports.fetch_status(services.gateway, refund)
    return partial(gateway_reports.record_status, refund=refund, attempts=attempts)


@periodic(
    "expire-checkouts",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="* * * * *",
    purpose="Expire unpaid orders after polling the gateway",
)
def expire_checkouts(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Expire unpaid orders."""
    return expiry.sweep_abandoned_checkouts(
        services.database, services.gateway, fee_bearer=services.settings.gateway_fee_bearer, now=now
    )


@periodic(
    "requery-refunds",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="*/15 * * * *",
    purpose="Poll the gateway for refunds that have had no report for an hour",
)
def poll_refunds(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Poll the gateway for refunds without a recent report, and resume refunds that were not sent."""
    return gateway_reports.poll_refunds(services.database, services.gateway, now=now)


@periodic(
    "collect-debts",
    queue=queues.ESCROW_RECONCILIATION,
    schedule="*/5 * * * *",
    purpose="Offset buyer debts against wallet balances",
)
def offset_buyer_debts(services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
    """Offset buyer debts against the buyers' wallets."""
    return buyer_accounts.offset_buyer_debts(services.database, now=now)
