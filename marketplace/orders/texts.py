"""Texts of orders: notifications to buyers and vendors, and error messages."""

# Notifications. Amounts are formatted, such as "NGN 1,250.00".
ORDER_RECEIVED_TITLE = "You have a new order"
ORDER_RECEIVED_BODY = (
    "Order {order_number} is paid. Accept the order and prepare the items."
    " The payment is held in escrow until the buyer has received the items."
)
ORDER_PAID_TITLE = "Your order is paid"
ORDER_PAID_BODY = (
    "Order {order_number} is paid, and the vendor was notified. Your delivery PIN is shown on the order."
    " Give the PIN to the vendor only when you have the items."
)
ORDER_EXPIRED_TITLE = "Your order expired"
ORDER_EXPIRED_BODY = "Order {order_number} was not paid in time and has expired."
ORDER_EXPIRED_WALLET_RETURNED = "The {amount} that your wallet paid is back in your wallet."
ORDER_EXPIRED_PAYMENT_RETURNED = (
    "The {amount} that you had already paid is being returned the way you paid it."
)
ORDER_EXPIRED_NEXT_STEP = "If you still want the items, place a new order."

# Error messages.
ONLY_PAID_ORDERS = "Your account is {status}, so you can use paid orders only. See your account's status."
ITEMS_NOT_ORDERABLE = "Some items cannot be ordered. {first_name}: {first_reason}"
OTHER_CAMPUS_ITEM = "This product is sold on another campus. Order products of your own campus only."
SEVERAL_VENDORS = (
    "An order can have items of one vendor only. Use the checkout to order from several vendors."
)
INSUFFICIENT_STOCK = "Some quantities exceed the available stock. Reduce the quantities or remove the items."
TOO_MANY_UNPAID_ORDERS = (
    "You would have {count} unpaid orders; the limit is {limit}. Pay or cancel unpaid orders first."
)
TOO_MANY_VENDORS = (
    "You would have {count} unpaid orders; the limit is {limit}. Order from fewer vendors at a time."
)
PRICE_CHANGED = (
    "The total is now {total_minor} kobo, not {expected_minor}. Confirm the new total and try again."
)
EMPTY_CART = "Your cart is empty. Add items to the cart, or send `items`."
ADDRESS_NOT_FOUND = "Address not found. Save an address first, or send `shippingAddress`."
PIN_LOCKED = "Too many wrong PINs. Wait for the time in the Retry-After header, then try again."
WRONG_PIN = "The PIN is wrong. Ask the buyer for the PIN shown on the order."
