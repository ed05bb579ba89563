"""Infrastructure of the domain: settings, database, cache, outbox and logs."""
