"""A stand-in for the identity provider: OpenID Connect, and tokens for the personas of the demo."""
