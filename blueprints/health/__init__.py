"""Health probes."""
