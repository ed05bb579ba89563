"""The names of the four background queues. Each queue has a separate worker process."""

NOTIFICATIONS = "notifications"
WEBHOOKS = "webhooks"
ESCROW_RECONCILIATION = "escrow-reconciliation"
AI_MODERATION = "ai-moderation"

NAMES = (NOTIFICATIONS, WEBHOOKS, ESCROW_RECONCILIATION, AI_MODERATION)
