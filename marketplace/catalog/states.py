"""The states of a listing.

``published`` is what the public sees. A listing gets there through ``in_review`` alone, except that one which
was paused comes back by itself, as long as its content is still what was screened.
"""

from marketplace.kernel.states import IllegalTransitionError, StateMachine, Transition

OWNER = "owner"
STAFF = "staff"

PRODUCT = StateMachine(
    name="listing",
    initial="draft",
    transitions=(
        Transition("submit", ("draft", "rejected", "paused"), "in_review", (OWNER,)),
        Transition("revise", ("published",), "in_review", (OWNER,)),
        # The screening found nothing; what it has doubts about stays in review, and waits for staff.
        Transition("clear", ("in_review",), "published"),
        Transition("approve", ("in_review", "rejected"), "published", (STAFF,)),
        Transition("reject", ("in_review",), "rejected", (STAFF,)),
        Transition("pause", ("published",), "paused", (OWNER,)),
        Transition("resume", ("paused",), "published", (OWNER,)),
        Transition("take_down", ("in_review", "published", "rejected", "paused"), "removed", (STAFF,)),
        # The vendor can't bring back what staff took down.
        Transition("restore", ("removed",), "published", (STAFF,)),
        Transition(
            "delete",
            ("draft", "in_review", "published", "rejected", "paused", "removed"),
            "deleted",
            (OWNER, STAFF),
        ),
    ),
)


def trigger_for(
    status: str, *, requested_status: str | None, screened_content_changed: bool, is_screened: bool
) -> str | None:
    """Tell which trigger brings a listing to the status that its vendor wants.

    :param status: the current one
    :param requested_status: ``published``, ``paused``, ``draft``, or none to leave it
    :param screened_content_changed: whether anything changes that was screened
    :param is_screened: whether the content, after the change, is still what was screened
    :return: the trigger, or none if the status stays
    :raises IllegalTransitionError: there is no way back to a draft
    """
    if requested_status is None or requested_status == status:
        return "revise" if status == "published" and screened_content_changed else None
    if requested_status == "paused":
        return "pause"
    if requested_status == "draft":
        raise IllegalTransitionError(
            f"The listing is {status}; it can't be a draft again. Pause it to hide it."
        )
    if status == "in_review":
        return None
    return "resume" if status == "paused" and is_screened else "submit"
