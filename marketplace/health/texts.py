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
