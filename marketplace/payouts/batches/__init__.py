"""Payout batches: staging, risk flags, approval by two officers, cancellation."""
