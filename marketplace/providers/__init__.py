"""Adapters of external providers. Most adapters share an HTTP client; object storage and e-mail use libraries."""
