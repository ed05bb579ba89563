"""Refunds: creation, dispatch through the gateway, polling, recovery and clawbacks."""
