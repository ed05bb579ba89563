"""Payees: bank accounts, holds, balances, statements and payout history."""
