"""Adapters of external providers. Each provider has a Protocol and an HTTP adapter over a shared client."""
