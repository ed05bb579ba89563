"""State machines of payment intents and refunds."""

from marketplace.kernel.states import StateMachine, Transition
from marketplace.providers.gateway import payloads

INITIALIZED = "initialized"
PENDING = "pending"
SUCCEEDED = "succeeded"
FAILED = "failed"
QUARANTINED = "quarantined"
ABANDONED = "abandoned"

INTENT = StateMachine(
    name="payment",
    initial=INITIALIZED,
    transitions=(
        Transition("open", (INITIALIZED, PENDING), PENDING),
        Transition("fail", (INITIALIZED, PENDING), FAILED),
        Transition("abandon", (INITIALIZED, PENDING, FAILED), ABANDONED),
        # Money may still arrive for a failed, abandoned or quarantined intent. Every charge is applied or quarantined.
        Transition("settle", (INITIALIZED, PENDING, FAILED, ABANDONED, QUARANTINED), SUCCEEDED),
        Transition("quarantine", (INITIALIZED, PENDING, FAILED, ABANDONED, QUARANTINED), QUARANTINED),
    ),
)

# The channel of a payment: a payment method of the gateway, or the wallet.
CHANNELS = (*payloads.CHANNELS, "wallet")

# Refunds change the payment status of an order that was paid.
REFUND_PENDING = "refund_pending"
REFUNDED = "refunded"
PARTIALLY_REFUNDED = "partially_refunded"
PAYMENT_STATUSES = (*sorted(INTENT.states), REFUND_PENDING, REFUNDED, PARTIALLY_REFUNDED)

SUBMITTED = "submitted"
PROCESSED = "processed"
NEEDS_ATTENTION = "needs_attention"
CREDITED = "credited"

RETRY = "retry"
CREDIT = "credit"
WITHDRAW = "withdraw"

REFUND = StateMachine(
    name="refund",
    initial=PENDING,
    transitions=(
        Transition("submit", (PENDING,), SUBMITTED),
        # The gateway's event may arrive before the response to our own request.
        Transition("process", (PENDING, SUBMITTED, NEEDS_ATTENTION, FAILED), PROCESSED),
        # A sent refund may come back, because the buyer's bank rejected the money.
        Transition("fail", (PENDING, SUBMITTED, NEEDS_ATTENTION, PROCESSED), FAILED),
        Transition("need-attention", (PENDING, SUBMITTED), NEEDS_ATTENTION),
        Transition(RETRY, (FAILED,), PENDING),
        Transition(CREDIT, (FAILED, NEEDS_ATTENTION), CREDITED),
        # The buyer's bank returned the payment before the refund was sent.
        Transition(WITHDRAW, (PENDING, FAILED), CREDITED),
    ),
)
