"""Idempotency keys: repeated requests with the same key have a single effect."""
