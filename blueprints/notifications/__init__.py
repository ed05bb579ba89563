"""Routes of devices that receive push notifications."""
