"""Webhooks in: inbox, processing, dead letters."""
