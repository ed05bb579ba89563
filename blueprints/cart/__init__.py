"""The cart over HTTP."""
