"""Dispatch of payouts, exceptions and stalled payouts."""
