"""State machine of reviews."""

from marketplace.kernel.states import StateMachine, Transition

VISIBLE = "visible"
HIDDEN = "hidden"
DELETED = "deleted"

EDIT = "edit"
HIDE = "hide"
RESTORE = "restore"
DELETE = "delete"

REVIEW = StateMachine(
    name="review",
    initial=VISIBLE,
    transitions=(
        Transition(EDIT, (VISIBLE,), VISIBLE, actors=("author",)),
        # Reports hide a review until staff decide.
        Transition(HIDE, (VISIBLE,), HIDDEN),
        Transition(RESTORE, (HIDDEN,), VISIBLE),
        Transition(DELETE, (VISIBLE, HIDDEN), DELETED, actors=("author",)),
    ),
)
