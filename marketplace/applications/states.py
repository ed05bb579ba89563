"""State machine of vendor applications."""

from marketplace.kernel.states import StateMachine, Transition

SUBMITTED = "submitted"
UNDER_REVIEW = "under_review"
NEEDS_INFO = "needs_info"
APPROVED = "approved"
REJECTED = "rejected"
WITHDRAWN = "withdrawn"
OPEN = (SUBMITTED, UNDER_REVIEW, NEEDS_INFO)

START_REVIEW = "start-review"
REQUEST_INFO = "request-info"
ANSWER = "answer"
APPROVE = "approve"
REJECT = "reject"
WITHDRAW = "withdraw"

APPLICATION = StateMachine(
    name="application",
    initial=SUBMITTED,
    transitions=(
        Transition(START_REVIEW, (SUBMITTED,), UNDER_REVIEW, actors=("staff",)),
        Transition(REQUEST_INFO, (UNDER_REVIEW,), NEEDS_INFO, actors=("staff",)),
        Transition(ANSWER, (NEEDS_INFO,), UNDER_REVIEW, actors=("applicant",)),
        Transition(APPROVE, (UNDER_REVIEW,), APPROVED, actors=("staff",)),
        Transition(REJECT, (UNDER_REVIEW,), REJECTED, actors=("staff",)),
        Transition(WITHDRAW, OPEN, WITHDRAWN, actors=("applicant",)),
    ),
)
