"""Transfers through the gateway: dispatch, status, polling, exceptions."""
