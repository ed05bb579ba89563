"""Whether the service can serve."""
