"""States of payout batches and of payouts."""

from marketplace.kernel.states import StateMachine, Transition

STAGED = "staged"
APPROVED = "approved"
DISPATCHING = "dispatching"
COMPLETED = "completed"
PARTIALLY_FAILED = "partially_failed"
REJECTED = "rejected"

BATCH = StateMachine(
    name="payout batch",
    initial=STAGED,
    transitions=(
        Transition("approve", (STAGED,), APPROVED),
        # The payments differ from the approved payments: two approvals are needed again.
        Transition("reopen", (APPROVED,), STAGED),
        Transition("reject", (STAGED, APPROVED), REJECTED),
        Transition(
            "dispatch",
            (APPROVED,),
            DISPATCHING,
            advice="A batch is sent once, after two officers have approved it.",
        ),
        Transition("complete", (DISPATCHING, PARTIALLY_FAILED), COMPLETED),
        # A successful transfer may be reversed days later.
        Transition("fail-in-part", (DISPATCHING, COMPLETED), PARTIALLY_FAILED),
    ),
)

PENDING = "pending"
SUBMITTED = "submitted"
SUCCESS = "success"
FAILED = "failed"
REVERSED = "reversed"
UNKNOWN = "unknown"
CANCELLED = "cancelled"

PAYOUT = StateMachine(
    name="payout",
    initial=PENDING,
    transitions=(
        Transition("cancel", (PENDING,), CANCELLED),
        Transition("submit", (PENDING, UNKNOWN), SUBMITTED),
        Transition("lose", (PENDING, SUBMITTED), UNKNOWN),
        # An event may arrive before the response to the service's own call.
        Transition("succeed", (PENDING, SUBMITTED, UNKNOWN), SUCCESS),
        Transition("fail", (PENDING, SUBMITTED, UNKNOWN), FAILED),
        Transition("reverse", (PENDING, SUBMITTED, UNKNOWN, SUCCESS), REVERSED),
        # A poll reports success for a payout that was reported as failed or reversed.
        Transition("turn-out-sent", (FAILED, REVERSED), SUCCESS),
    ),
)
