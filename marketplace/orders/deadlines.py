"""Time limits and counts of orders, by stage."""

from datetime import timedelta

# Placing
MAX_UNPAID_ORDERS = 5  # per buyer at a time

# Payment. The stock of an unpaid order is reserved.
PAYMENT_WINDOW = timedelta(minutes=30)
# Initializing a payment restarts the window, up to this time after placing.
MAX_PAYMENT_WINDOW = timedelta(minutes=60)
# An order whose bank transfer is pending at the gateway expires this much later. A transfer that arrives after the
# expiry is refunded.
BANK_TRANSFER_GRACE_PERIOD = timedelta(minutes=10)
# After an officer accepts a partial payment, possibly at night, the buyer has a day to pay the remainder.
REMAINDER_PAYMENT_WINDOW = timedelta(hours=24)

# Fulfilment. An order past these deadlines is stuck: the admin table of orders shows officers the reason.
ACCEPTANCE_DEADLINE = timedelta(hours=24)  # from payment to acceptance
DELIVERY_DEADLINE = timedelta(days=14)  # from shipping to delivery
# A parcel that waits longer at a hub is overdue in the hubs' operational view.
HANDOVER_DEADLINE = timedelta(hours=48)  # from shipping to the handover at the hub

# Delivery PIN
MAX_PIN_ATTEMPTS = 5
PIN_LOCKOUT = timedelta(minutes=15)
