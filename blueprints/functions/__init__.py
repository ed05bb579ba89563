"""Functions for the identity provider, the database and the outbox."""
