"""The words that tell where an order's money is."""

from marketplace.orders import states
from marketplace.payments import states as payment_states

# What a transaction was, to whom it concerns: from where, to where, and in plain words.
TRANSACTION_TEXTS: dict[str, tuple[str, str, str]] = {
    "payment": ("gateway", "escrow", "The buyer's payment came in and went into escrow."),
    "wallet_payment": ("buyer", "escrow", "The buyer's wallet paid this into escrow."),
    "wallet_return": (
        "escrow",
        "buyer",
        "The order ended unpaid: the wallet's part went back to the wallet.",
    ),
    "release": ("escrow", "vendor", "The delivery was confirmed: escrow was released to the vendor."),
    "refund": ("escrow", "on_the_way_back", "A refund was started: the gateway is to send it back."),
    "refund_to_wallet": ("escrow", "buyer", "A refund went to the buyer's wallet."),
    "return": ("gateway", "on_the_way_back", "A payment that was not needed is sent back."),
    "held_return": ("held_back", "on_the_way_back", "What was held back is sent back."),
    "held_payment": (
        "held_back",
        "escrow",
        "The buyer's payment that was held back was kept for the order, and went into escrow.",
    ),
    "return_to_wallet": ("held_back", "buyer", "A payment that was not needed went to the buyer's wallet."),
    "refund_sent": (
        "on_the_way_back",
        "buyer",
        "The gateway sent the refund to where the payment came from.",
    ),
    "refund_sent_twice_returned": (
        "gateway",
        "buyer",
        "What the gateway had sent once too often came back to it: the buyer's wallet has it again.",
    ),
    "refund_returned": (
        "buyer",
        "on_the_way_back",
        "The refund did not arrive: it came back to the gateway.",
    ),
    "refund_credit": ("on_the_way_back", "buyer", "The refund went to the buyer's wallet instead."),
    "refund_sent_twice": (
        "gateway",
        "buyer",
        "The gateway sent a refund that the buyer had already got. The wallet gave it back, or the buyer owes it.",
    ),
    "clawback": (
        "vendor",
        "on_the_way_back",
        "A refund was started after the release: the gateway is to send it back.",
    ),
    "clawback_to_wallet": (
        "vendor",
        "buyer",
        "A refund went to the buyer's wallet after the release.",
    ),
    "chargeback": ("vendor", "buyer", "The buyer's bank took the payment back after the release."),
    "chargeback_undecided": (
        "gateway",
        "buyer",
        "The buyer's bank took the payment back. Our staff decide about the order.",
    ),
    "chargeback_of_refunded": (
        "gateway",
        "buyer",
        "The buyer's bank gave back what was refunded already: the wallet gave it back, or the buyer owes it.",
    ),
    "quarantine": ("gateway", "held_back", "A payment could not be applied as it came, and was held back."),
}
KINDS_SHOWN_AS_PAYMENT = frozenset({"wallet_payment", "held_payment"})
DEFAULT_TRANSACTION_TEXT = ("platform", "platform", "The books of this order were put right.")
_CLAWED_BACK_TEXT = (
    "This went back to the buyer after the release: your part of it is taken from your next payouts."
)
TRANSACTION_TEXTS_FOR_VENDOR = {
    "wallet_payment": ("buyer", "escrow", "The buyer's payment went into escrow."),
    "held_payment": ("buyer", "escrow", "The buyer's payment went into escrow."),
    "refund": ("escrow", "buyer", "This goes back to the buyer."),
    "refund_to_wallet": ("escrow", "buyer", "This went back to the buyer."),
    "clawback": ("vendor", "buyer", _CLAWED_BACK_TEXT),
    "clawback_to_wallet": ("vendor", "buyer", _CLAWED_BACK_TEXT),
}

# Why escrow holds money in a state of the order, and what happens next.
ESCROW_TEXTS = {
    states.PENDING_PAYMENT: (
        "A part is paid, and is kept for the order until the rest is paid.",
        "The rest is paid, or the order ends and this goes back to where it came from.",
    ),
    states.PAID_ESCROW: (
        "The order is paid, and waits for the vendor to accept it.",
        "The vendor accepts it; until it is shipped it can be cancelled for a full refund.",
    ),
    states.PROCESSING: (
        "The vendor is preparing the order.",
        "The vendor ships it; until then it can be cancelled for a full refund.",
    ),
    states.SHIPPED: (
        "The order is on its way. The money is released for the buyer's delivery PIN alone, or their confirmation.",
        "The buyer gives the vendor the PIN on delivery. After 14 days without it, our staff decide.",
    ),
    states.DISPUTED: (
        "There is a dispute: nothing moves until it is decided.",
        "Our staff decide who gets the money.",
    ),
}
DEFAULT_ESCROW_TEXT = ("It is kept for the order.", "Our finance officers look into it.")
CHARGEBACK_OPEN_TEXT = (
    "The buyer's bank was asked to give the payment back, so we do not send it as well for now.",
    "The bank decides. If it does not give the payment back, the gateway is asked to.",
)
IN_TRANSIT_TEXTS = {
    payment_states.PENDING: (
        "The refund is written, and the gateway is about to be asked to send it.",
        "The gateway is asked.",
    ),
    payment_states.SUBMITTED: (
        "The gateway has the refund and is sending it to where the payment came from.",
        "The gateway tells us when it is sent; banks may take some days more.",
    ),
    payment_states.FAILED: (
        "The gateway could not send the refund.",
        "Our finance officers try again, or put it into the wallet.",
    ),
    payment_states.NEEDS_ATTENTION: (
        "The gateway needs the buyer's bank details for the refund.",
        "Our finance officers see to it, or put it into the wallet.",
    ),
}
