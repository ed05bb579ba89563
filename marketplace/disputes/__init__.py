"""Disputes between buyer and vendor: open, respond, withdraw, find and rule."""
