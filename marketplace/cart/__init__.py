"""The buyer's cart."""
