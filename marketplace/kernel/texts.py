"""Texts of problems that every area shares, and of invalid schedules and opening hours."""

# Meanings of the error codes. Each meaning is also the default detail of its problems.
AUTH_UNAUTHORIZED = "The bearer token is missing or invalid."
AUTH_TOKEN_EXPIRED = "The token has expired. Get a new token and try again."  # noqa: S105 - a text, not a secret
AUTH_FORBIDDEN = "Your account, role or permissions do not allow this action."
AUTH_AAL2_REQUIRED = (
    "This action requires two-factor authentication (assurance level aal2). Sign in with two factors."
)
VALIDATION_FAILED = (
    "The body or a parameter is invalid. See invalid_params for each error."
    " A body that cannot be parsed returns status 400 with this code."
)
RESOURCE_NOT_FOUND = "Not found."
METHOD_NOT_ALLOWED = (
    "This resource does not support the method. The Allow header lists the supported methods."
)
CONCURRENCY_CONFLICT = (
    "The state of the resource does not allow this action, or another request changed the resource."
    " Read the resource again."
)
ESCROW_BALANCE_DEFICIT = "The amount exceeds the verified escrow balance."
PAYLOAD_TOO_LARGE = "The request body is too large for this route."
UNSUPPORTED_MEDIA_TYPE = "This route does not support the content type or encoding of the body."
ESCROW_LOCKED = "The funds are held in escrow and cannot be withdrawn yet."
DELIVERY_PIN_INVALID = (
    "The delivery PIN does not match this order. attemptsLeft shows the remaining attempts."
)
RATE_LIMIT_EXCEEDED = (
    "You have exceeded the rate limit. Try again after the number of seconds in Retry-After."
)
INTERNAL_ERROR = (
    "An internal error occurred and was reported. Quote the correlationId when you contact support."
)
PROVIDER_UNAVAILABLE = "An external provider failed or timed out. Try again."
SERVICE_UNAVAILABLE = (
    "The service is temporarily unavailable. Try again after the number of seconds in Retry-After."
)

STALE_REVISION = (
    "The current revision is {current}, not {revision}. Read the resource again, then repeat your change."
)
UNKNOWN_CURSOR = "Not valid for this listing and these filters. Start again from the first page."

TRANSITION_NOT_ALLOWED = "The {machine} is {state}, but {trigger} requires {sources}."
TRANSITION_UNKNOWN = "The {machine} is {state}, and {trigger} is not one of its actions."

SCHEDULE_EXAMPLES = "Use {examples}."
CRONTAB_WRONG_FIELD_COUNT = "A crontab expression has 5 fields, but {schedule!r} has {count}."
CRONTAB_AMBIGUOUS_STEP = (
    "{schedule!r} has a step on a range of a single value, or on a range that mixes a number and a name."
)
CRONTAB_INVALID_VALUE = "{value!r} is not a valid {field}."
CRONTAB_NEVER_DUE = "{schedule!r} never occurs, because the date does not exist."
INTERVAL_MALFORMED = "{schedule!r} is not an interval of a number and a unit (s, m, h or d)."
INTERVAL_OUT_OF_RANGE = "{schedule!r} is not between 5 seconds and 31 days."

UNKNOWN_DAY = "The day must be one of monday to sunday."
INVALID_OPENING_TIME = "The opening time must have the form 08:00, from 00:00 to 23:59."
INVALID_CLOSING_TIME = "The closing time must have the form 17:30, from 00:00 to 24:00."
HOURS_PAST_MIDNIGHT = (
    "The closing time must be after the opening time. For hours past midnight, end at 24:00 and add the rest to the"
    " next day."
)
HOURS_OVERLAP = "Overlaps another interval of the same day."
TOO_MANY_HOURS = "A day can have at most {limit} intervals."
