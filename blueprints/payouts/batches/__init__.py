"""HTTP API of payout batches, for finance."""
