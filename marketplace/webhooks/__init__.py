"""Incoming webhooks: inbox, processing, dead letters."""
