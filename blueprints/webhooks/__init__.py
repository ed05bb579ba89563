"""Webhooks in: what providers send is checked, stored and acknowledged; workers do the rest."""
