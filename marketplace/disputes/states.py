"""State machine of disputes."""

from marketplace.kernel.states import StateMachine, Transition

OPEN, AWAITING_RESPONSE, UNDER_REVIEW = "open", "awaiting_response", "under_review"
RESOLVED_BUYER, RESOLVED_VENDOR, RESOLVED_SPLIT = "resolved_buyer", "resolved_vendor", "resolved_split"
WITHDRAWN = "withdrawn"

REQUEST_RESPONSE, RESPOND, FIND, WITHDRAW = "request-response", "respond", "find", "withdraw"
ESCALATE, MISS_RESPONSE, REQUIRE_RETURN = "escalate", "miss-response", "require-return"
REFUND_BUYER, RELEASE_VENDOR, SPLIT = OUTCOMES = ("refund_buyer", "release_vendor", "split")
RETURN_REQUESTED, RETURN_SENT, RETURN_RECEIVED, RETURN_CANCELLED = RETURN_STATUSES = (
    *("requested", "sent", "received", "cancelled"),
)
OPEN_RETURN = (RETURN_REQUESTED, RETURN_SENT)

_UNRESOLVED = (OPEN, AWAITING_RESPONSE, UNDER_REVIEW)
DISPUTE = StateMachine(
    name="dispute",
    initial=OPEN,
    transitions=(
        Transition(REQUEST_RESPONSE, (OPEN,), AWAITING_RESPONSE),
        # A silent buyer's order and a chargeback go to staff at once.
        Transition(ESCALATE, (OPEN,), UNDER_REVIEW),
        # The other side may add to the response until the ruling.
        Transition(RESPOND, (AWAITING_RESPONSE, UNDER_REVIEW), UNDER_REVIEW),
        Transition(MISS_RESPONSE, (AWAITING_RESPONSE,), UNDER_REVIEW),
        Transition(FIND, _UNRESOLVED, UNDER_REVIEW),
        # A ruling that waits for goods no longer waits for a response.
        Transition(REQUIRE_RETURN, _UNRESOLVED, UNDER_REVIEW),
        Transition(WITHDRAW, _UNRESOLVED, WITHDRAWN),
        Transition(REFUND_BUYER, _UNRESOLVED, RESOLVED_BUYER),
        Transition(RELEASE_VENDOR, _UNRESOLVED, RESOLVED_VENDOR),
        Transition(SPLIT, _UNRESOLVED, RESOLVED_SPLIT),
    ),
)
