"""Public listings of products, and the inventory that a vendor sees."""
