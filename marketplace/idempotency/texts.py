"""Error messages of idempotency keys."""

REQUEST_JUST_ENDED = "A request with this Idempotency-Key just ended. Try again."
KEY_REUSED = "The key was already used with another request body. Use a new key."
REQUEST_IN_PROGRESS = (
    "A request with this Idempotency-Key is already in progress. Wait, then try again with the same key."
)
REQUEST_TAKEN_OVER = "The request took too long, and another request took over. Try again with the same key."
