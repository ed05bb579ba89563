"""Helpers of all commands: output, progress, environment and failures."""
