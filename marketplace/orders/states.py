"""The life of an order, and of its escrow."""

from marketplace.kernel.states import StateMachine, Transition

PENDING_PAYMENT = "pending_payment"
PAID_ESCROW = "paid_escrow"
PROCESSING = "processing"
SHIPPED = "shipped"
DELIVERED = "delivered"
DISPUTED = "disputed"
CANCELLED = "cancelled"
EXPIRED = "expired"
REFUNDED = "refunded"

PAY = "pay"
EXPIRE = "expire"
CANCEL = "cancel"
ACCEPT = "accept"
SHIP = "ship"
VERIFY_CODE = "verify-code"
CONFIRM = "confirm"
DISPUTE = "dispute"
CHARGE_DISPUTE = "charge-dispute"
REFUND = "refund"
RULE_FOR_VENDOR = "rule-for-vendor"

ORDER = StateMachine(
    name="order",
    initial=PENDING_PAYMENT,
    transitions=(
        Transition(PAY, (PENDING_PAYMENT,), PAID_ESCROW, actors=("buyer",)),
        Transition(
            CANCEL,
            (PENDING_PAYMENT, PAID_ESCROW, PROCESSING),
            CANCELLED,
            actors=("buyer", "vendor"),
            advice="What is on its way, or was delivered, takes a dispute.",
        ),
        Transition(EXPIRE, (PENDING_PAYMENT,), EXPIRED),
        Transition(ACCEPT, (PAID_ESCROW,), PROCESSING, actors=("vendor",)),
        Transition(SHIP, (PROCESSING,), SHIPPED, actors=("vendor",)),
        Transition(VERIFY_CODE, (SHIPPED,), DELIVERED, actors=("vendor",)),
        Transition(CONFIRM, (SHIPPED,), DELIVERED, actors=("buyer",)),
        # A party's dispute, or one of the bank of whoever paid: nothing moves until it is ruled on.
        Transition(DISPUTE, (PAID_ESCROW, PROCESSING, SHIPPED), DISPUTED),
        Transition(CHARGE_DISPUTE, (PAID_ESCROW, PROCESSING, SHIPPED), DISPUTED),
        # All of it, by finance or by a ruling; what is refunded in part stays where it is.
        Transition(REFUND, (PAID_ESCROW, PROCESSING, SHIPPED, DISPUTED), REFUNDED),
        Transition(RULE_FOR_VENDOR, (DISPUTED,), DELIVERED),
    ),
)

ESCROW = StateMachine(
    name="escrow",
    initial="pending",
    transitions=(
        Transition("hold", ("pending",), "held"),
        Transition("release", ("held",), "released"),
        Transition("freeze", ("held",), "frozen"),
        Transition("refund", ("held", "frozen"), "refunded"),
        # What is left after a part was refunded, or what a ruling gives the vendor.
        Transition("release-rest", ("held", "frozen"), "partially_refunded"),
        Transition("release-frozen", ("frozen",), "released"),
    ),
)

# The buyer sees the PIN from payment on, as long as it can be used.
PIN_VISIBLE_STATES = frozenset({PAID_ESCROW, PROCESSING, SHIPPED})

_DELIVERY_STATUS = {
    PENDING_PAYMENT: "not_started",
    PAID_ESCROW: "not_started",
    PROCESSING: "preparing",
    SHIPPED: "in_transit",
    DELIVERED: "delivered",
    DISPUTED: "in_transit",
    CANCELLED: "not_started",
    EXPIRED: "not_started",
    REFUNDED: "returned",
}
DELIVERY_STATUSES = frozenset(_DELIVERY_STATUS.values())


def delivery_status(status: str, *, was_shipped: bool) -> str:
    """Tell how far the goods of an order are.

    :param status: the order's
    :param was_shipped: whether they were ever on their way: what was not can't come back
    """
    if status in (DISPUTED, REFUNDED) and not was_shipped:
        return "not_started"
    return _DELIVERY_STATUS[status]
