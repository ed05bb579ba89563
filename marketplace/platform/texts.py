"""Error messages of the platform: maintenance, features and halted payouts."""

MAINTENANCE = "The platform is under maintenance. Try again later."
MAINTENANCE_WITH_MESSAGE = "The platform is under maintenance. {message}"
PAYOUTS_HALTED = (
    "All payouts are halted since {halted_at} ({reason})."
    " Two officers can resume payouts with the proposal `payout_resume`."
)
HALT_CHANGED = (
    "Payouts are no longer halted, or there are new findings. Review the current halt and propose again."
)
