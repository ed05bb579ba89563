"""The life of a proposal."""

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
        Transition(APPROVE, (PENDING,), APPROVED, advice="File it anew if it is still wanted."),
        Transition(ACTIVATE, (APPROVED,), ACTIVE),
        # Until it takes effect it can be taken back.
        Transition(
            REJECT, (PENDING, APPROVED), REJECTED, advice="What took effect is undone by another proposal."
        ),
        Transition(EXPIRE, (PENDING,), EXPIRED),
    ),
)
