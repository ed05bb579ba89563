"""Texts of the money trail: where an order's money is, the reason, and the next step."""

from marketplace.orders import states
from marketplace.payments import states as payment_states

_REFUND_SENT_TWICE = (
    "The gateway sent a refund that the buyer had already received. The amount was taken from the buyer's wallet or is"
    " owed by the buyer."
)
_CHARGEBACK_OF_REFUNDED = (
    "The buyer's bank returned money that was already refunded. The amount was taken from the buyer's wallet or is owed"
    " by the buyer."
)
# Movements of money: source, destination and description, by the meaning of the ledger transaction
TRANSACTION_TEXTS: dict[str, tuple[str, str, str]] = {
    "payment": ("gateway", "escrow", "The buyer's payment was received into escrow."),
    "wallet_payment": ("buyer", "escrow", "The buyer's wallet paid this amount into escrow."),
    "wallet_return": (
        "escrow",
        "buyer",
        "The order ended unpaid, so the wallet's part was returned to the wallet.",
    ),
    "release": ("escrow", "vendor", "The delivery was confirmed, and escrow was released to the vendor."),
    "refund": ("escrow", "on_the_way_back", "A refund through the gateway was started."),
    "refund_to_wallet": ("escrow", "buyer", "A refund was credited to the buyer's wallet."),
    "return": ("gateway", "on_the_way_back", "A payment that the order did not need is being returned."),
    "held_return": ("held_back", "on_the_way_back", "A payment under review is being returned."),
    "held_payment": (
        "held_back",
        "escrow",
        "The buyer's payment was accepted after a review and moved into escrow.",
    ),
    "return_to_wallet": (
        "held_back",
        "buyer",
        "A payment that the order did not need was credited to the buyer's wallet.",
    ),
    "refund_sent": (
        "on_the_way_back",
        "buyer",
        "The gateway sent the refund to the original payment method.",
    ),
    "refund_sent_twice_returned": (
        "gateway",
        "buyer",
        "A duplicate refund came back to the gateway and was credited to the buyer's wallet.",
    ),
    "refund_returned": (
        "buyer",
        "on_the_way_back",
        "The refund did not arrive and came back to the gateway.",
    ),
    "refund_credit": (
        "on_the_way_back",
        "buyer",
        "The refund was credited to the buyer's wallet instead.",
    ),
    "refund_sent_twice": (
        "gateway",
        "buyer",
        _REFUND_SENT_TWICE,
    ),
    "clawback": (
        "vendor",
        "on_the_way_back",
        "A refund through the gateway was started after the release.",
    ),
    "clawback_to_wallet": (
        "vendor",
        "buyer",
        "A refund after the release was credited to the buyer's wallet.",
    ),
    "chargeback": ("vendor", "buyer", "The buyer's bank took back the payment after the release."),
    "chargeback_undecided": (
        "gateway",
        "buyer",
        "The buyer's bank took back the payment. Our staff will decide about the order.",
    ),
    "chargeback_of_refunded": (
        "gateway",
        "buyer",
        _CHARGEBACK_OF_REFUNDED,
    ),
    "chargeback_settled": (
        "escrow",
        "gateway",
        "Escrow paid the amount that the buyer's bank had taken back.",
    ),
    "chargeback_borne": (
        "platform",
        "gateway",
        "The platform bears the amount that the buyer's bank took back.",
    ),
    "appeal_granted": (
        "platform",
        "vendor",
        "The vendor's appeal was granted. The platform pays this amount.",
    ),
    "quarantine": (
        "gateway",
        "held_back",
        "A payment could not be applied to the order and was put under review.",
    ),
}
KINDS_SHOWN_AS_PAYMENT = frozenset({"wallet_payment", "held_payment"})
DEFAULT_TRANSACTION_TEXT = ("platform", "platform", "The ledger entries of this order were corrected.")
_CLAWED_BACK_TEXT = (
    "This amount was refunded to the buyer after the release. Your share is deducted from your next payouts."
)
TRANSACTION_TEXTS_FOR_VENDOR = {
    "wallet_payment": ("buyer", "escrow", "The buyer's payment was received into escrow."),
    "held_payment": ("buyer", "escrow", "The buyer's payment was received into escrow."),
    "refund": ("escrow", "buyer", "This amount is being refunded to the buyer."),
    "refund_to_wallet": ("escrow", "buyer", "This amount was refunded to the buyer."),
    "clawback": ("vendor", "buyer", _CLAWED_BACK_TEXT),
    "clawback_to_wallet": ("vendor", "buyer", _CLAWED_BACK_TEXT),
}
FOREIGN_CURRENCY_RETURNED = "The payment in a foreign currency was returned by hand."

# Holders of money: the reason and the next step

UNPAID = "The order is not paid yet."
UNPAID_PENDING = "The payment was started and is not confirmed yet."
UNPAID_NEXT = "The buyer pays. Otherwise the order expires, and other buyers can order the items."

FOREIGN_CURRENCY = "A payment of {amount} in a foreign currency is under review. It is not in our ledger."
FOREIGN_CURRENCY_NEXT = "Our finance team returns the payment."
QUARANTINED = "A payment does not match the order and is under review."
QUARANTINED_NEXT = "Our finance team accepts the payment for the order, returns it or credits the wallet."

ESCROW_TEXTS = {
    states.PENDING_PAYMENT: (
        "The order is partly paid. Escrow keeps this amount until the rest is paid.",
        "The buyer pays the rest, or the order ends and this amount is refunded.",
    ),
    states.PAID_ESCROW: (
        "The order is paid. The vendor has not accepted the order yet.",
        "The vendor accepts the order. Until the order is shipped, it can be cancelled for a full refund.",
    ),
    states.PROCESSING: (
        "The vendor is preparing the order.",
        "The vendor ships the order. Until then, it can be cancelled for a full refund.",
    ),
    states.SHIPPED: (
        "The order is on its way. Escrow is released only with the buyer's delivery PIN or confirmation.",
        "The buyer gives the vendor the PIN on delivery. After 14 days without a confirmed delivery, our staff decide.",
    ),
    states.DISPUTED: (
        "The order is disputed, so escrow is frozen until the dispute is decided.",
        "Our staff decide who receives the money.",
    ),
}
DEFAULT_ESCROW_TEXT = ("Escrow holds this amount for the order.", "Our finance team is checking the order.")

CHARGEBACK_OPEN_TEXT = (
    "The buyer's bank was asked to return the payment, so the refund is paused.",
    "The bank decides. If the bank does not return the payment, the refund is sent.",
)
IN_TRANSIT_TEXTS = {
    payment_states.PENDING: (
        "The refund is created and about to be requested from the gateway.",
        "The gateway receives the request and sends the refund.",
    ),
    payment_states.SUBMITTED: (
        "The gateway is sending the refund to the original payment method.",
        "The gateway confirms that the refund was sent. Banks may take a few more days.",
    ),
    payment_states.FAILED: (
        "The gateway could not send the refund.",
        "Our finance team retries the refund or credits the wallet.",
    ),
    payment_states.NEEDS_ATTENTION: (
        "The gateway needs the buyer's bank details to send the refund.",
        "Our finance team resolves this with the gateway or credits the wallet.",
    ),
}

RELEASED_TO_VENDOR = "The delivery was confirmed, and the money was added to the vendor's balance."
RELEASED_TO_VENDOR_LESS_FEES = (
    "The delivery was confirmed, and the money was added to the vendor's balance, less our fees."
)
RELEASED_TO_VENDOR_NEXT = "The vendor's next payout includes the amount, unless an earlier payout did."
RELEASED_TO_PLATFORM = "This is the commission and the service fee."
RELEASED_TO_PLATFORM_NEXT = "The platform keeps this amount."

REFUNDED = "This amount was refunded to the buyer."
REFUNDED_FOR_VENDOR = "This amount is being or was refunded to the buyer."
REFUNDED_NEXT = "There is nothing left to do."
