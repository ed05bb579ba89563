"""Time limits and counts of an order, in the order of the order's states."""

from datetime import timedelta

# Placing
MAX_UNPAID_ORDERS = 5  # per buyer at a time

# Payment. The stock of an unpaid order is reserved.
PAYMENT_WINDOW = timedelta(minutes=30)
# Initializing a payment restarts the window. Stock is never reserved for longer than this.
MAX_PAYMENT_WINDOW = timedelta(minutes=60)
# A bank transfer may arrive this long after the account has expired. A later transfer is refunded.
BANK_TRANSFER_GRACE_PERIOD = timedelta(minutes=10)
# An officer may accept a partial payment at night, so the buyer has a day to pay the remainder.
REMAINDER_PAYMENT_WINDOW = timedelta(hours=24)

# Fulfilment. After these deadlines the order is stuck: officers see a reason in the table of orders.
ACCEPTANCE_DEADLINE = timedelta(hours=24)  # from payment to acceptance
DELIVERY_DEADLINE = timedelta(days=14)  # from shipping to delivery

# Delivery PIN
MAX_PIN_ATTEMPTS = 5
PIN_LOCKOUT = timedelta(minutes=15)
