"""Moderation: automated review, banned terms and staff actions."""
