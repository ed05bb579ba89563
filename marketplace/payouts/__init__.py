"""Payouts to vendors and other payees: batches, transfers, bank accounts."""
