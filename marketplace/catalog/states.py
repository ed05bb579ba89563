"""States of a listing.

Buyers see only ``published`` listings. Vendors publish a listing through ``in_review``. A paused listing returns
without a review while its screened content is unchanged. Staff can also publish a rejected or removed listing.
"""

from marketplace.catalog import texts
from marketplace.kernel.states import IllegalTransitionError, StateMachine, Transition

OWNER = "owner"
STAFF = "staff"

PRODUCT = StateMachine(
    name="listing",
    initial="draft",
    transitions=(
        Transition("submit", ("draft", "rejected", "paused"), "in_review", (OWNER,)),
        Transition("revise", ("published",), "in_review", (OWNER,)),
        # Several buyers reported the listing, so that staff decide again.
        Transition("report", ("published",), "in_review"),
        # The screening found no violation. A doubtful listing stays in review and waits for staff.
        Transition("clear", ("in_review",), "published"),
        Transition("approve", ("in_review", "rejected"), "published", (STAFF,)),
        Transition("reject", ("in_review",), "rejected", (STAFF,)),
        Transition("pause", ("published",), "paused", (OWNER,)),
        Transition("resume", ("paused",), "published", (OWNER,)),
        Transition("take_down", ("in_review", "published", "rejected", "paused"), "removed", (STAFF,)),
        # Only staff can restore a listing that staff took down.
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
    """Return the trigger that moves a listing to the status that the vendor requests.

    :param requested_status: ``published``, ``paused``, ``draft``, or None to keep the status
    :param screened_content_changed: whether the request changes screened content
    :param is_screened: whether the content after the change has passed the screening
    :return: the trigger, or None if the status stays
    :raises IllegalTransitionError: a listing cannot return to ``draft``
    """
    if requested_status is None or requested_status == status:
        return "revise" if status == "published" and screened_content_changed else None
    if requested_status == "paused":
        return "pause"
    if requested_status == "draft":
        raise IllegalTransitionError(texts.NOT_BACK_TO_DRAFT.format(status=status))
    if status == "in_review":
        return None
    return "resume" if status == "paused" and is_screened else "submit"
