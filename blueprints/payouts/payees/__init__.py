"""Payouts, balances and statements of payees."""
