"""Reconciliation runs, for finance."""
