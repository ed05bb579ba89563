"""Error messages of the platform: maintenance, features and halted payouts."""

MAINTENANCE = "The platform is under maintenance. Try again later."
MAINTENANCE_WITH_MESSAGE = "The platform is under maintenance. {message}"
FEATURE_OFF = "The feature {feature} is switched off. Try again later."
PAYOUTS_HALTED = (
    "All payouts have been halted since {halted_at} ({reason})."
    " Two officers with the permission canManagePlatform can resume payouts with a `payout_resume` proposal."
)
HALT_CHANGED = (
    "Payouts are no longer halted, or there are new findings. Review the halt, then file a new proposal."
)
