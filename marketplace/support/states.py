"""State machine of tickets."""

from marketplace.kernel.states import StateMachine, Transition

OPEN, PENDING_STAFF, PENDING_USER = "open", "pending_staff", "pending_user"
RESOLVED, CLOSED = "resolved", "closed"
# The states in which staff must act.
WAITING_FOR_STAFF = (OPEN, PENDING_STAFF)

ASSIGN, STAFF_REPLY, USER_REPLY, RESOLVE, CLOSE = "assign", "staff-reply", "user-reply", "resolve", "close"

TICKET = StateMachine(
    name="ticket",
    initial=OPEN,
    transitions=(
        Transition(ASSIGN, (OPEN, PENDING_STAFF), PENDING_STAFF),
        Transition(ASSIGN, (PENDING_USER,), PENDING_USER),
        Transition(STAFF_REPLY, (OPEN, PENDING_STAFF, PENDING_USER), PENDING_USER),
        # A reply within seven days reopens a resolved ticket.
        Transition(USER_REPLY, (OPEN,), OPEN),
        Transition(
            USER_REPLY,
            (PENDING_STAFF, PENDING_USER, RESOLVED),
            PENDING_STAFF,
            advice="Open a new ticket.",
        ),
        Transition(RESOLVE, (OPEN, PENDING_STAFF, PENDING_USER), RESOLVED),
        Transition(CLOSE, (OPEN, PENDING_STAFF, PENDING_USER, RESOLVED), CLOSED),
    ),
)
