"""Texts of the diagnostic."""

HEALTHY = "All required dependencies respond."
DEGRADED = "These dependencies have a fault: {names}."

# Monitored alerts
CONDITION_ENDED = "The condition no longer holds."
MONITOR_TITLES = {
    "ERR_API_SPIKE": "Many requests end with a server error",
    "DB_POOL_SATURATED": "The database connections are almost used up",
    "PAYMENT_WEBHOOK_FAIL": "Many webhooks have a wrong signature",
    "QUEUE_STALL": "A background queue does not move",
    "SLO_BURN": "The error budget of an objective burns too fast",
}

# Incidents
INCIDENT_NOT_FOUND = "Incident not found."
INCIDENT_RESOLVED = "This incident is resolved. Open a new incident."

# The status page
STATUS_HEADLINES = {
    "operational": "Everything works",
    "degraded": "Some parts have problems",
    "down": "Important parts do not work",
    "maintenance": "Maintenance",
}
COMPONENT_TITLES = {
    "database": "Shop and orders",
    "cache": "Speed",
    "payments": "Payments",
    "payouts": "Payouts to vendors",
}
COMPONENT_STATUS_WORDS = {"operational": "Works", "degraded": "Has problems", "down": "Does not work"}
IMPACT_WORDS = {"minor": "Minor", "major": "Major", "critical": "Critical"}
NOTE_STATUS_WORDS = {
    "investigating": "Investigating",
    "identified": "Cause found",
    "monitoring": "Watching the repair",
    "resolved": "Resolved",
}

# Prometheus
ESCROW_DRIFT = "The ledger does not balance"
METRICS_MISSING = "Prometheus gets no metrics of the database or of the cache"
