"""Messaging providers: channels for alerts, and the SMS gateway."""
