"""Tracing with OpenTelemetry, the optional extra ``tracing``."""
