"""Incoming webhooks: check, store and acknowledge deliveries. Workers process the stored events."""
