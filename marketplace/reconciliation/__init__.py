"""Reconciliation: the gateway's records compared with the ledger, and the check of all ledger invariants."""
