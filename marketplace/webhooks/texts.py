"""Texts of webhooks: alerts about dead letters, and errors of replays."""

DEAD_LETTER_TITLE = "A webhook event failed for good"
DEAD_LETTER_RESOLVED_NOTE = "No dead event of this type is left."

SEVERAL_EVENTS = (
    "{count} events match. List them with `GET /api/admin/webhooks?id=`, then use the `id` of one."
)
EVENT_IN_PROGRESS = "This event is being processed. Try again in a few seconds."

SIGNATURE_WRONG = "The signature is missing or does not match the body."
ADDRESS_BARRED = (
    "This address has sent too many wrong signatures."
    " Correct the signing secret, then try again in 5 minutes."
)
