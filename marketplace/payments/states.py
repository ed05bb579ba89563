"""The life of a payment intent."""

from marketplace.kernel.states import StateMachine, Transition

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
        # Money may arrive for an attempt that we had given up, and again where some is held back: it is
        # applied or held back, never ignored.
        Transition("settle", (INITIALIZED, PENDING, FAILED, ABANDONED, QUARANTINED), SUCCEEDED),
        Transition("quarantine", (INITIALIZED, PENDING, FAILED, ABANDONED, QUARANTINED), QUARANTINED),
    ),
)

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
        # The gateway's word may come before the answer to our own call.
        Transition("process", (PENDING, SUBMITTED, NEEDS_ATTENTION, FAILED), PROCESSED),
        # What was sent may come back: the bank of the buyer did not take it.
        Transition("fail", (PENDING, SUBMITTED, NEEDS_ATTENTION, PROCESSED), FAILED),
        Transition("need-attention", (PENDING, SUBMITTED), NEEDS_ATTENTION),
        Transition(RETRY, (FAILED,), PENDING),
        Transition(CREDIT, (FAILED, NEEDS_ATTENTION), CREDITED),
        # The buyer's bank gave the payment back before it was sent.
        Transition(WITHDRAW, (PENDING, FAILED), CREDITED),
    ),
)
