"""What the domain stands on: settings, database, cache, outbox, logs."""
