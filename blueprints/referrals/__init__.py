"""Referrals of the caller."""
