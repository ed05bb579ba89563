"""Limits on waits for the database, kept by the client: a hanging server keeps no time-out of its own."""
