"""Background work as staff see it."""
