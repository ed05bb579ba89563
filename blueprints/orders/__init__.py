"""Orders, as buyers, vendors and staff see and move them."""
