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
