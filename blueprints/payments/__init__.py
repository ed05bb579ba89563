"""Payments, their webhook, and statements."""
