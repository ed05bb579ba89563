"""Payouts: to vendors and out of wallets."""
