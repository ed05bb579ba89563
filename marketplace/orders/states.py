"""The life of an order, and of its escrow."""

from marketplace.kernel.states import StateMachine, Transition

PENDING_PAYMENT = "pending_payment"
PAID_ESCROW = "paid_escrow"
PROCESSING = "processing"
SHIPPED = "shipped"
DELIVERED = "delivered"
CANCELLED = "cancelled"
EXPIRED = "expired"

PAY = "pay"
EXPIRE = "expire"
CANCEL = "cancel"
ACCEPT = "accept"
SHIP = "ship"
VERIFY_CODE = "verify-code"

ORDER = StateMachine(
    name="order",
    initial=PENDING_PAYMENT,
    transitions=(
        Transition(PAY, (PENDING_PAYMENT,), PAID_ESCROW, actors=("buyer",)),
        Transition(CANCEL, (PENDING_PAYMENT,), CANCELLED, actors=("buyer", "vendor")),
        Transition(EXPIRE, (PENDING_PAYMENT,), EXPIRED),
        Transition(ACCEPT, (PAID_ESCROW,), PROCESSING, actors=("vendor",)),
        Transition(SHIP, (PROCESSING,), SHIPPED, actors=("vendor",)),
        Transition(VERIFY_CODE, (SHIPPED,), DELIVERED, actors=("vendor",)),
    ),
)

ESCROW = StateMachine(
    name="escrow",
    initial="pending",
    transitions=(
        Transition("hold", ("pending",), "held"),
        Transition("release", ("held",), "released"),
    ),
)

# The buyer sees the PIN from payment on, as long as it can be used.
PIN_VISIBLE = frozenset({PAID_ESCROW, PROCESSING, SHIPPED})

DELIVERY_STATUS = {
    PENDING_PAYMENT: "not_started",
    PAID_ESCROW: "not_started",
    PROCESSING: "preparing",
    SHIPPED: "in_transit",
    DELIVERED: "delivered",
    CANCELLED: "not_started",
    EXPIRED: "not_started",
}
