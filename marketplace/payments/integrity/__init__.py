"""Checks of the payment ledger, and the halt of payouts when it does not balance."""
