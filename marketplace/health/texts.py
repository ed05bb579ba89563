"""Texts of the diagnostic, the monitored alerts, incidents and the status page."""

DEPENDENCIES_HEALTHY = "All required dependencies respond."
DEPENDENCIES_FAULTY = "Faulty dependencies: {names}. See `checks`."

# Monitored alerts
CONDITION_ENDED = "The condition no longer holds."
CONDITION_MILDER = "The condition continues with a lower severity, in a new alert."
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
    "operational": "All systems operational",
    "degraded": "Some features are slow or unavailable",
    "down": "Important features are unavailable",
    "maintenance": "Maintenance in progress",
}
STATUS_ADVICE = {
    "operational": "",
    "degraded": "Try again later if something does not work.",
    "down": "We are restoring the service. Try again later.",
    "maintenance": "We are working on the marketplace. Try again later.",
}
PLANNED_END = "Planned end: {time}."
COMPONENT_TITLES = {
    "database": "Shop and orders",
    "cache": "Response times",
    "payments": "Payments",
    "payouts": "Payouts to vendors",
}
COMPONENT_STATUS_WORDS = {"operational": "Operational", "degraded": "Degraded", "down": "Unavailable"}
INCIDENTS_TITLE = "Open and recently resolved incidents"
NO_INCIDENTS = "No incidents in the last 7 days."
IMPACT_WORDS = {"minor": "Minor", "major": "Major", "critical": "Critical"}
NOTE_STATUS_WORDS = {
    "investigating": "Investigating",
    "identified": "Identified",
    "monitoring": "Monitoring",
    "resolved": "Resolved",
}
STATUS_UPDATED = "Updated {time}. All times are Lagos time (UTC+1)."

# Prometheus
ESCROW_DRIFT = "The ledger violates an invariant or differs from the gateway's balance"
METRICS_MISSING = "Metrics of the marketplace are missing"
METRICS_MISSING_STEP = (
    "Check that `marketplace metrics serve` runs, and that the database and the cache respond."
)
