"""Payout batches, for finance."""
