"""Texts of payments for people: notifications, alerts and problem details.

Each text consists of whole sentences with named placeholders. Optional parts are sentences of their own, joined by a
space.
"""

# Notifications about charges

CHARGE_RETURNED_TITLE = "We are returning your payment"
CHARGE_RETURNED_BODY = (
    "{amount} that you paid for {order_numbers} is going back to your original payment method. {reasons}"
    " We will notify you when the refund is sent."
)
ORDER_CANCELLED_BEFORE_CHARGE = "The order was cancelled before the payment arrived."
ORDER_EXPIRED_BEFORE_CHARGE = "The order expired before the payment arrived."
ORDER_ALREADY_PAID = "The order was already paid."

EXCESS_CREDITED_TITLE = "You paid more than was due"
EXCESS_CREDITED_BODY = "The extra {amount} is in your wallet. You can use it for your next order."

CHARGE_QUARANTINED_TITLE = "Your payment is under review"
CHARGE_QUARANTINED_CURRENCY = "Your payment for {order_numbers} arrived in a currency other than naira."
CHARGE_QUARANTINED_FEES = "Your payment of {amount} for {order_numbers} arrived with incorrect fee data."
CHARGE_QUARANTINED_AMOUNT = "We received {amount} for {order_numbers}, but {due} is due."
CHARGE_QUARANTINED_NEXT_STEP = (
    "Please do not pay again for now. Our finance team is reviewing the payment. We will ask you to pay the difference"
    " or refund you."
)

CHARGE_RESOLVED_TITLE = "We reviewed your payment"
CHARGE_PARTLY_ACCEPTED = (
    "We accepted {amount} for {order_numbers}. Open the order and pay the remaining {due} within 24 hours. Otherwise"
    " the order expires and we refund you."
)
CHARGE_ACCEPTED = "We accepted {amount}. Your payment for {order_numbers} is complete."
CHARGE_ACCEPTED_EXCESS = "The extra {amount} is in your wallet."
CHARGE_RESOLVED_TO_WALLET = "We added your payment of {amount} to your wallet."
CHARGE_RESOLVED_TO_GATEWAY = "We are refunding {amount} to your original payment method."
CHARGE_RESOLVED_FOREIGN_CURRENCY = (
    "We returned your payment in another currency to your original payment method."
)
CHARGE_RESOLVED_PAY_AGAIN = "{due} is still due for {order_numbers}. Open the order and pay again."

# Notifications about refunds

REFUND_SENT_TITLE = "Your refund was sent"
REFUND_SENT_AGAIN_TITLE = "Your refund was sent again"
REFUND_SENT_BODY = (
    "{amount} is on its way to your original payment method. It may take a few days to appear at your bank."
)
REFUND_SENT_AGAIN_REASON = "Our first refund did not arrive and was returned to us."

REFUND_DELAYED_TITLE = "Your refund is delayed"
REFUND_DELAYED_BODY = (
    "We could not send {amount} to your original payment method yet. Our finance team will retry the refund or credit"
    " your wallet. You do not need to do anything."
)

REFUND_WAITING_TITLE = "Your refund is waiting for your bank"
REFUND_WAITING_BODY = (
    "Your bank was asked to return the payment, so we have paused your refund of {amount}. If the bank does not return"
    " the payment, we will send the refund."
)

REFUND_CREDITED_TITLE = "Your refund is in your wallet"
REFUND_CREDITED_BODY = (
    "We could not send {amount} to your original payment method. We added the amount to your wallet."
)
REFUND_CREDITED_AFTER_CHARGEBACK_BODY = (
    "Your bank has already returned this payment, so we did not send our refund of {amount}. The amount is in your"
    " wallet, less any debt you have with us."
)

CHARGED_BACK_TITLE = "Your bank returned a payment to you"
CHARGED_BACK_BODY = "Your bank has returned {amount} to you that you had paid us."
CHARGED_BACK_REFUNDS_CANCELLED = "We therefore cancelled refunds of {amount} that we had not sent yet."
CHARGED_BACK_KEPT_IN_WALLET = "{amount} of these refunds that your bank did not return is in your wallet."
CHARGED_BACK_DUPLICATE = "We had already paid you {amount} of the returned money."
CHARGED_BACK_DEBITED = "We took {amount} from your wallet to recover this money."

DUPLICATE_REFUND_TITLE = "You received a refund twice"
DUPLICATE_REFUND_BODY = (
    "{amount} was sent to your original payment method, although you had already received this refund."
)
DUPLICATE_REFUND_DEBITED = "We took {amount} from your wallet to recover the second refund."
BUYER_DEBT = "You owe us {amount}. We will deduct the debt from future credits to your wallet."

DUPLICATE_REFUND_RETURNED_TITLE = "A refund did not arrive and came back to us"
DUPLICATE_REFUND_RETURNED_BODY = (
    "{amount} that was sent to your original payment method came back to us. The amount is in your wallet. We will"
    " deduct any debt you have with us from your wallet."
)

REFUND_AMOUNT_MISMATCH_TITLE = "Your refund was sent with a different amount"
REFUND_AMOUNT_MISMATCH_BODY = (
    "{sent_amount} was sent to your original payment method instead of {expected_amount}."
)
REFUND_AMOUNT_MISMATCH_REST = "The remaining {amount} is in your wallet."
REFUND_AMOUNT_MISMATCH_DEBITED = "We took {amount} of the excess from your wallet."

DEBT_COLLECTED_TITLE = "We deducted a debt from your wallet"
DEBT_COLLECTED_BODY = "We took {amount} from your wallet for money that you had received twice."
DEBT_COLLECTED_REST = "You still owe us {amount}."
DEBT_COLLECTED_IN_FULL = "You do not owe us anything more."

# Notifications about orders that are refunded or cancelled

ORDER_REFUNDED_TITLE = "An order was refunded"
ORDER_PARTLY_REFUNDED_TITLE = "An order was partly refunded"
DELIVERED_ORDER_REFUNDED_TITLE = "A delivered order was refunded"
ORDER_REFUNDED_TO_WALLET = "{amount} of order {order_number} was refunded to your wallet."
ORDER_REFUNDED_TO_GATEWAY = (
    "{amount} of order {order_number} is being refunded to your original payment method."
)
ORDER_REFUNDED_FOR_VENDOR = "{amount} of order {order_number} is being refunded to the buyer."
REASON_ON_ORDER = "The history of the order shows the reason."
ORDER_REFUNDED_ITEMS = "Refunded items: {items}."
ORDER_REFUNDED_CLOSED = "The order is closed."
ORDER_REFUNDED_OPEN = "The order continues, and the rest of the payment stays in escrow."
ORDER_REFUNDED_RESTOCKED = "Do not ship the refunded items. They are back in stock."

VENDOR_CLAWBACK_SHARE = (
    "Your share is {share}. You now owe {total_debt} in total, which we will deduct from your next payouts."
)
VENDOR_FULLY_CLAWED_BACK = "You have already returned your full share. The platform covers the rest."
CHARGEBACK_FOR_VENDOR = "The buyer's bank took back {amount} of order {order_number}."

ORDER_DISPUTED_TITLE = "An order is on hold"
ORDER_DISPUTED_BODY = (
    "The buyer's bank is disputing the payment for order {order_number}. Do not hand over the goods. The money stays in"
    " escrow until our staff have decided. If the buyer already has the goods, keep your proof of delivery."
)

ORDER_CANCELLED_TITLE = "An order was cancelled"
ORDER_CANCELLED_BY = {
    "buyer": "Order {order_number} was cancelled by the buyer.",
    "vendor": "Order {order_number} was cancelled by the vendor.",
    "system": "Order {order_number} was cancelled because the vendor did not accept it in time.",
}
ORDER_CANCELLED_REFUND = (
    "{amount} is going back to your original payment method. We will notify you when the refund is sent."
)
ORDER_CANCELLED_TO_WALLET = "{amount} is back in your wallet."
ORDER_CANCELLED_RESTOCKED = "The items are back in stock."

# Alerts

ALERT_GATEWAY_UNREACHABLE = "The payment gateway does not respond"
ALERT_GATEWAY_UNREACHABLE_RESOLVED = "The gateway responds again."
ALERT_GATEWAY_KEY_REFUSED = "The payment gateway rejects our secret key"
ALERT_GATEWAY_KEY_REFUSED_RESOLVED = "The gateway accepted a request with our secret key."
ALERT_REFUND_STUCK = "A refund needs an officer"
ALERT_REFUND_REFUSED = "The gateway refused a refund"
ALERT_REFUND_SENT_TWICE = "A refund was paid twice"
ALERT_REFUND_SENT_TWICE_RESOLVED = "The duplicate payment came back to the gateway."
ALERT_REFUND_ID_DIFFERS = "The gateway has a second refund for one request"
ALERT_REFUND_CAME_BACK = "A refund failed after it was sent"
ALERT_REFUND_AMOUNT_DIFFERS = "The gateway reports another amount for a refund"
ALERT_REFUND_UNKNOWN = "The gateway does not know a refund that it accepted"
ALERT_REFUND_UNKNOWN_RESOLVED = "The gateway knows the refund."
ALERT_REFUND_RESOLVED = "The refund is {status}."
ALERT_CHARGE_QUARANTINED = "A charge is quarantined"
ALERT_CHARGE_QUARANTINED_RESOLVED = "An officer resolved the charge with {action}."
ALERT_CHARGE_DISPUTED = "A buyer's bank disputes a charge"
ALERT_CHARGE_DISPUTE_RESOLVED = "The bank decided a disputed charge"
ALERT_CHARGE_DISPUTE_UNCLEAR = "A bank dispute ended with an unrecognized outcome"
ALERT_CHARGE_DISPUTE_ENDED = "The gateway reported the end of the dispute."
ALERT_PAYMENT_STALLED = "The outcome of a payment is unclear"
ALERT_PAYMENT_STALLED_RESOLVED = "The payment has a final status."
LEDGER_CHARGEBACK_SETTLED = "Chargeback of order {order_number} settled by the ruling"
ALERT_LEDGER_INVARIANT_VIOLATED = "A ledger invariant does not hold"
ALERT_LEDGER_INVARIANT_RESTORED = "The invariant holds again."

# Problem details

CHARGEBACK_OPEN = (
    "The buyer's bank is disputing this payment. Respond in the gateway's dashboard, and retry after the dispute is"
    " won."
)
CHARGEBACK_LOST = "The buyer's bank has already returned this payment. A refund would pay the buyer twice."
CHARGEBACK_LOST_USE_WALLET = (
    "The buyer's bank has already returned this payment. Credit the wallet instead, where the buyer's debt for this"
    " payment is deducted."
)

CHARGE_NOT_POSTED = (
    "The ledger has no amount for this charge, so the wallet cannot be credited. Return the money in the gateway's"
    " dashboard, then resolve the charge with `refund`."
)
CHARGE_NOT_POSTED_FOR_ORDERS = (
    "The ledger has no amount for this charge, so the charge cannot pay an order. Return the money in the gateway's"
    " dashboard, then resolve the charge with `refund`."
)
NO_PAYABLE_ORDER = "No order is awaiting this payment. Resolve the charge with `refund` or `wallet`."

PAYMENT_UNDER_REVIEW = "A payment for this order is under review. We will notify you of the result."
PAYMENT_WINDOW_OVER = "The time to pay for this order is over. Place the order again."
ORDER_NOT_PAYABLE = "Only a pending_payment order can be paid. Current status: {statuses}."
PAYMENT_CHANGED = "The payment or an order has changed meanwhile (payment status: {status}). Try again."
PAYMENT_REFUSED_BY_GATEWAY = (
    "The payment gateway refused the payment. Try again later, or choose another payment method."
)
INITIALIZATION_IN_PROGRESS = "Another request is initializing this payment. Try again in a few seconds."

ESCROW_ALREADY_RELEASED = (
    "The escrow was already released to the vendor (escrow status: {escrow_status}). To refund the buyer at the"
    " expense of the vendor and the platform, send `clawback: true`."
)
ITEMS_AMOUNT_MISMATCH = (
    "`amountMinor` must equal the price of the items ({items_minor}). Omit `amountMinor`, or omit `items` if the refund"
    " is not for specific items."
)
ABOVE_ESCROW_BALANCE = "`amountMinor` must not exceed the escrow balance ({available_minor})."
ABOVE_RELEASED_BALANCE = (
    "`amountMinor` must not exceed the released amount not yet refunded ({available_minor})."
)

GATEWAY_STATUS_UNKNOWN = (
    "The gateway accepted this refund but does not report its status, so it may still send the refund. Check the refund"
    " in the gateway's dashboard, then try again."
)
REFUND_RETRIED_MEANWHILE = "Another officer has already retried this refund. Reload the refund."
REFUND_IN_FLIGHT = (
    "You cannot retry or credit this refund, because the gateway has sent it or may still send it (gateway status:"
    " {gateway_status}). The refund is now {status}."
)
REFUND_IN_FLIGHT_WITH_OTHER_AMOUNT = (
    "The gateway has sent this refund or may still send it with another amount (gateway status: {gateway_status},"
    " amount: {reported_minor} kobo). Credit the refund once the gateway status is `processed`."
)
