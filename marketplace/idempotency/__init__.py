"""Idempotency keys: a repeated request has its effect once."""
