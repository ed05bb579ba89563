"""Readiness and status of the service."""
