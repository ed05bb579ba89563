"""Moderation of listings, and banned terms."""
