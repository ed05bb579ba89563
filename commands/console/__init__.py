"""Helpers that the commands share: database, settings, failures, output and progress."""
