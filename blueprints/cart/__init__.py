"""The cart."""
