"""States of a proposal."""

from marketplace.kernel.states import StateMachine, Transition

PENDING = "pending"
APPROVED = "approved"
ACTIVE = "active"
REJECTED = "rejected"
EXPIRED = "expired"

APPROVE = "approve"
ACTIVATE = "activate"
REJECT = "reject"
EXPIRE = "expire"

PROPOSAL = StateMachine(
    name="proposal",
    initial=PENDING,
    transitions=(
        Transition(
            APPROVE, (PENDING,), APPROVED, advice="File a new proposal if the change is still needed."
        ),
        Transition(ACTIVATE, (APPROVED,), ACTIVE),
        # A proposal can be withdrawn until the change takes effect.
        Transition(
            REJECT, (PENDING, APPROVED), REJECTED, advice="To undo a change in force, file another proposal."
        ),
        Transition(EXPIRE, (PENDING,), EXPIRED),
    ),
)
