"""Settled charges: applied to orders, returned or quarantined."""
