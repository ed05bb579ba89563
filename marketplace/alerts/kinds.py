"""The kinds of alerts: identifier, severity and permission. The texts are in ``texts``.

To add an alert, add a kind here and the texts in ``texts``, and call ``raise_alert`` where the condition is found.
"""

from dataclasses import dataclass
from typing import Literal

from marketplace.alerts import texts
from marketplace.alerts.texts import AlertTexts
from marketplace.identity.permissions import (
    MANAGE_COMPLIANCE,
    MANAGE_DISPUTES,
    MANAGE_FINANCES,
    MANAGE_PLATFORM,
)

AlertIdentifier = Literal[
    "ESCROW_DRIFT",
    "ERR_API_SPIKE",
    "DB_POOL_SATURATED",
    "PAYMENT_WEBHOOK_FAIL",
    "QUEUE_STALL",
    "SLO_BURN",
    "REFUND_SENT_TWICE",
    "REFUND_CAME_BACK",
    "GATEWAY_KEY_REFUSED",
    "GATEWAY_UNREACHABLE",
    "WEBHOOK_DEAD",
    "OUTBOX_GIVEN_UP",
    "PERIODIC_TASK_FAILING",
    "CHARGE_DISPUTED",
    "CHARGE_DISPUTE_RESOLVED",
    "CHARGE_DISPUTE_UNCLEAR",
    "PAYOUT_EXCEPTION",
    "TRANSFER_UNKNOWN",
    "TRANSFER_UNKNOWN_FAILED",
    "TRANSFER_DIFFERS",
    "TRANSFER_SENT_AFTER_ALL",
    "TRANSFER_UNSETTLED",
    "TRANSFER_WANTS_OTP",
    "PAYOUT_FUNDS_SHORT",
    "PAYOUTS_REFUSED",
    "PAYOUT_STALLED",
    "REFUND_REFUSED",
    "REFUND_UNKNOWN",
    "REFUND_AMOUNT_DIFFERS",
    "REFUND_ID_DIFFERS",
    "REFUND_STUCK",
    "CHARGE_QUARANTINED",
    "PAYMENT_STALLED",
    "SMS_LIMIT_REACHED",
    "DISPUTES_DUE",
    "DISPUTES_OVERDUE",
    "DELETION_MONEY_LEFT",
    "PRIVACY_REQUESTS_DUE",
    "PRIVACY_REQUESTS_LATE",
]
Severity = Literal["SEV-1", "SEV-2", "SEV-3"]
# Minutes within which an operator responds, the most severe first.
RESPONSE_MINUTES: dict[Severity, int] = {"SEV-1": 15, "SEV-2": 30, "SEV-3": 240}
SEVERITIES: tuple[Severity, ...] = tuple(RESPONSE_MINUTES)


@dataclass(frozen=True)
class AlertKind:
    """A kind of alert.

    :param severity: the default severity; ``raise_alert`` may set another
    :param permission: the permission that staff need to resolve an alert of the kind
    """

    severity: Severity
    permission: str
    texts: AlertTexts

    @property
    def subject_description(self) -> str:
        """The thing that an alert of the kind is about."""
        return self.texts.subject

    @property
    def meaning(self) -> str:
        """The incident and the effect, for the operator."""
        return self.texts.meaning

    @property
    def first_step(self) -> str:
        """The operator's first steps, numbered."""
        return self.texts.first_step

    @property
    def resolution_rule(self) -> str:
        """The condition that ends an alert of the kind."""
        return self.texts.resolution


ALERT_KINDS: dict[str, AlertKind] = {
    "ESCROW_DRIFT": AlertKind("SEV-1", MANAGE_FINANCES, texts.ESCROW_DRIFT),
    "ERR_API_SPIKE": AlertKind("SEV-2", MANAGE_PLATFORM, texts.ERR_API_SPIKE),
    "DB_POOL_SATURATED": AlertKind("SEV-2", MANAGE_PLATFORM, texts.DB_POOL_SATURATED),
    "PAYMENT_WEBHOOK_FAIL": AlertKind("SEV-1", MANAGE_PLATFORM, texts.PAYMENT_WEBHOOK_FAIL),
    "QUEUE_STALL": AlertKind("SEV-2", MANAGE_PLATFORM, texts.QUEUE_STALL),
    "SLO_BURN": AlertKind("SEV-3", MANAGE_PLATFORM, texts.SLO_BURN),
    "REFUND_SENT_TWICE": AlertKind("SEV-1", MANAGE_FINANCES, texts.REFUND_SENT_TWICE),
    "REFUND_CAME_BACK": AlertKind("SEV-1", MANAGE_FINANCES, texts.REFUND_CAME_BACK),
    "GATEWAY_KEY_REFUSED": AlertKind("SEV-1", MANAGE_PLATFORM, texts.GATEWAY_KEY_REFUSED),
    "GATEWAY_UNREACHABLE": AlertKind("SEV-2", MANAGE_PLATFORM, texts.GATEWAY_UNREACHABLE),
    "WEBHOOK_DEAD": AlertKind("SEV-2", MANAGE_PLATFORM, texts.WEBHOOK_DEAD),
    "OUTBOX_GIVEN_UP": AlertKind("SEV-2", MANAGE_PLATFORM, texts.OUTBOX_GIVEN_UP),
    "PERIODIC_TASK_FAILING": AlertKind("SEV-2", MANAGE_PLATFORM, texts.PERIODIC_TASK_FAILING),
    "CHARGE_DISPUTED": AlertKind("SEV-2", MANAGE_FINANCES, texts.CHARGE_DISPUTED),
    "CHARGE_DISPUTE_RESOLVED": AlertKind("SEV-2", MANAGE_FINANCES, texts.CHARGE_DISPUTE_RESOLVED),
    "CHARGE_DISPUTE_UNCLEAR": AlertKind("SEV-2", MANAGE_FINANCES, texts.CHARGE_DISPUTE_UNCLEAR),
    "TRANSFER_DIFFERS": AlertKind("SEV-1", MANAGE_FINANCES, texts.TRANSFER_DIFFERS),
    "TRANSFER_SENT_AFTER_ALL": AlertKind("SEV-1", MANAGE_FINANCES, texts.TRANSFER_SENT_AFTER_ALL),
    "PAYOUT_EXCEPTION": AlertKind("SEV-2", MANAGE_FINANCES, texts.PAYOUT_EXCEPTION),
    "TRANSFER_UNKNOWN": AlertKind("SEV-2", MANAGE_FINANCES, texts.TRANSFER_UNKNOWN),
    "TRANSFER_UNKNOWN_FAILED": AlertKind("SEV-2", MANAGE_FINANCES, texts.TRANSFER_UNKNOWN_FAILED),
    "TRANSFER_UNSETTLED": AlertKind("SEV-2", MANAGE_FINANCES, texts.TRANSFER_UNSETTLED),
    "TRANSFER_WANTS_OTP": AlertKind("SEV-2", MANAGE_FINANCES, texts.TRANSFER_WANTS_OTP),
    "PAYOUT_FUNDS_SHORT": AlertKind("SEV-2", MANAGE_FINANCES, texts.PAYOUT_FUNDS_SHORT),
    "PAYOUTS_REFUSED": AlertKind("SEV-2", MANAGE_FINANCES, texts.PAYOUTS_REFUSED),
    "PAYOUT_STALLED": AlertKind("SEV-2", MANAGE_FINANCES, texts.PAYOUT_STALLED),
    "REFUND_REFUSED": AlertKind("SEV-2", MANAGE_FINANCES, texts.REFUND_REFUSED),
    "REFUND_UNKNOWN": AlertKind("SEV-2", MANAGE_FINANCES, texts.REFUND_UNKNOWN),
    "REFUND_AMOUNT_DIFFERS": AlertKind("SEV-2", MANAGE_FINANCES, texts.REFUND_AMOUNT_DIFFERS),
    "REFUND_ID_DIFFERS": AlertKind("SEV-2", MANAGE_FINANCES, texts.REFUND_ID_DIFFERS),
    "REFUND_STUCK": AlertKind("SEV-3", MANAGE_FINANCES, texts.REFUND_STUCK),
    "CHARGE_QUARANTINED": AlertKind("SEV-3", MANAGE_FINANCES, texts.CHARGE_QUARANTINED),
    "PAYMENT_STALLED": AlertKind("SEV-3", MANAGE_FINANCES, texts.PAYMENT_STALLED),
    "SMS_LIMIT_REACHED": AlertKind("SEV-2", MANAGE_PLATFORM, texts.SMS_LIMIT_REACHED),
    "DISPUTES_DUE": AlertKind("SEV-3", MANAGE_DISPUTES, texts.DISPUTES_DUE),
    "DISPUTES_OVERDUE": AlertKind("SEV-2", MANAGE_DISPUTES, texts.DISPUTES_OVERDUE),
    "DELETION_MONEY_LEFT": AlertKind("SEV-3", MANAGE_COMPLIANCE, texts.DELETION_MONEY_LEFT),
    "PRIVACY_REQUESTS_DUE": AlertKind("SEV-3", MANAGE_COMPLIANCE, texts.PRIVACY_REQUESTS_DUE),
    "PRIVACY_REQUESTS_LATE": AlertKind("SEV-2", MANAGE_COMPLIANCE, texts.PRIVACY_REQUESTS_LATE),
}
