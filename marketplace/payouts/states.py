"""The lives of a batch of payouts, and of each payment in it."""

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
        # What was approved is no longer what is there: it takes two officers again.
        Transition("reopen", (APPROVED,), STAGED),
        Transition("reject", (STAGED, APPROVED), REJECTED),
        Transition(
            "dispatch",
            (APPROVED,),
            DISPATCHING,
            advice="It is sent once, after two officers have approved it.",
        ),
        Transition("complete", (DISPATCHING, PARTIALLY_FAILED), COMPLETED),
        # A transfer that had succeeded may be reversed days later.
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
        # The gateway's word may come before the answer to our own call.
        Transition("succeed", (PENDING, SUBMITTED, UNKNOWN), SUCCESS),
        Transition("fail", (PENDING, SUBMITTED, UNKNOWN), FAILED),
        Transition("reverse", (PENDING, SUBMITTED, UNKNOWN, SUCCESS), REVERSED),
        # What the gateway had said was over left all the same: it says so when asked.
        Transition("turn-out-sent", (FAILED, REVERSED), SUCCESS),
    ),
)
