"""Texts of webhooks: alerts about dead letters, and errors of replays."""

DEAD_LETTER_TITLE = "A webhook event failed for good"
DEAD_LETTER_RESOLVED_NOTE = "No dead event of this type is left."

EVENT_IN_PROGRESS = "This event is being processed. Try again in a few seconds."
