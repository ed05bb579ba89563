"""State machines of orders and escrow."""

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
# The trigger of a withdrawn dispute, by the order's status before the dispute.
RESUME = {PAID_ESCROW: "resume-paid", PROCESSING: "resume-processing", SHIPPED: "resume-shipped"}

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
            advice="For a problem with a shipped or delivered order, contact support.",
        ),
        Transition(EXPIRE, (PENDING_PAYMENT,), EXPIRED),
        Transition(ACCEPT, (PAID_ESCROW,), PROCESSING, actors=("vendor",)),
        Transition(SHIP, (PROCESSING,), SHIPPED, actors=("vendor",)),
        Transition(VERIFY_CODE, (SHIPPED,), DELIVERED, actors=("vendor",)),
        Transition(CONFIRM, (SHIPPED,), DELIVERED, actors=("buyer",)),
        # A dispute of the buyer or the vendor, or of the payer's bank. The order is frozen until staff rule.
        Transition(DISPUTE, (PAID_ESCROW, PROCESSING, SHIPPED), DISPUTED),
        Transition(CHARGE_DISPUTE, (PAID_ESCROW, PROCESSING, SHIPPED), DISPUTED),
        # A full refund by finance or by a ruling. A partial refund keeps the state.
        Transition(REFUND, (PAID_ESCROW, PROCESSING, SHIPPED, DISPUTED), REFUNDED),
        Transition(RULE_FOR_VENDOR, (DISPUTED,), DELIVERED),
        *(Transition(trigger, (DISPUTED,), status) for status, trigger in RESUME.items()),
    ),
)
# The triggers of an order's events. Placing, wrong PINs, partial refunds and clawbacks are no transitions.
PLACE, WRONG_PIN, REFUND_PART, CLAWBACK = "place", "wrong-pin", "refund-part", "clawback"
TRIGGERS = (
    PLACE,
    *dict.fromkeys(step.trigger for step in ORDER.transitions),
    WRONG_PIN,
    REFUND_PART,
    CLAWBACK,
)
# The actions that an order may offer its buyer or vendor.
ACTIONS = tuple(dict.fromkeys(step.trigger for step in ORDER.transitions if step.actors))

ESCROW = StateMachine(
    name="escrow",
    initial="pending",
    transitions=(
        Transition("hold", ("pending",), "held"),
        Transition("release", ("held",), "released"),
        Transition("freeze", ("held",), "frozen"),
        Transition("unfreeze", ("frozen",), "held"),
        Transition("refund", ("held", "frozen"), "refunded"),
        # The release after a partial refund, or the vendor's part of a ruling.
        Transition("release-rest", ("held", "frozen"), "partially_refunded"),
        Transition("release-frozen", ("frozen",), "released"),
    ),
)

# The buyer sees the PIN from payment until delivery.
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
    """Return the progress of an order's goods, for an order's status.

    :param was_shipped: whether the order was ever shipped; unshipped goods cannot be returned
    """
    if status in (DISPUTED, REFUNDED) and not was_shipped:
        return "not_started"
    return _DELIVERY_STATUS[status]
