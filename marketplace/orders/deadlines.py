"""Time limits and counts of an order's life, in the order in which they apply."""

from datetime import timedelta

# Placing
MAX_UNPAID_ORDERS = 5  # per buyer at a time

# Payment. The stock of an unpaid order is reserved.
PAYMENT_WINDOW = timedelta(minutes=30)
# Initializing a payment restarts the window. The stock is never reserved for longer than this.
MAX_PAYMENT_WINDOW = timedelta(minutes=60)
# After its account has expired, a bank transfer may still arrive. A later one is refunded.
BANK_TRANSFER_GRACE_PERIOD = timedelta(minutes=10)
# An officer may accept a partial payment at night, so the buyer has a day to pay the remainder.
REMAINDER_PAYMENT_WINDOW = timedelta(hours=24)

# Fulfilment. After these, an officer looks at the order, and the money trail says so.
ACCEPTANCE_DEADLINE = timedelta(hours=24)  # from payment to acceptance
DELIVERY_DEADLINE = timedelta(days=14)  # from shipping to delivery

# Delivery PIN
MAX_PIN_ATTEMPTS = 5
PIN_LOCKOUT = timedelta(minutes=15)
