"""Alerts over HTTP, for staff."""
