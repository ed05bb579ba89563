"""The service in Prometheus: metrics, alert rules and a dashboard."""
