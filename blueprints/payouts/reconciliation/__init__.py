"""HTTP API of reconciliation runs, for finance."""
