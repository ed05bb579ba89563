"""Simulated providers: payment gateway, identity provider, AI moderation and team chat, all over HTTP."""
