"""Ledger postings of payouts, and reservations of the amounts to pay."""
