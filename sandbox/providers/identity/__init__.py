"""A simulated identity provider: OpenID Connect, and tokens for the demo's personas."""
