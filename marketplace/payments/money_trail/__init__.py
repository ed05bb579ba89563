"""The money trail: the current holder of an order's money, and every movement of it."""
