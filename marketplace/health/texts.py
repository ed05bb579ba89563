"""Texts of the diagnostic."""

HEALTHY = "All required dependencies respond."
DEGRADED = "These dependencies have a fault: {names}."
