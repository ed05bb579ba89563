"""The money trail: the current holders of an order's money, and all movements of the money."""
