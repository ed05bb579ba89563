"""Tags of cached responses about the platform."""

STATUS = "status"
"""The platform's status: maintenance, features and halted payouts."""
