"""The names of the four background queues; each has a worker process of its own."""

NOTIFICATIONS = "notifications"
WEBHOOKS = "webhooks"
ESCROW_RECONCILIATION = "escrow-reconciliation"
AI_MODERATION = "ai-moderation"

NAMES = (NOTIFICATIONS, WEBHOOKS, ESCROW_RECONCILIATION, AI_MODERATION)
