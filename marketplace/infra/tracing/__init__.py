"""Traces of OpenTelemetry, an optional extra."""
