"""One's own account and addresses."""
