"""Idempotency keys: the same request twice has its effect once."""
