"""Messaging providers: channels for alerts."""
