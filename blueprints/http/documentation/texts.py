"""Texts of the OpenAPI document."""

# Responses
SUCCESS = {
    200: "Success.",
    201: "Created.",
    202: "Accepted. The work continues in the background.",
}
NOT_MODIFIED = "The client's copy is current (`If-None-Match`)."
ALSO_ANSWERED = "Not ready. The body says which part is not."

# Headers of responses
HEADER_REQUEST_ID = "Identifies the request. The same value is `requestId` in the body."
HEADER_LIMIT = "Requests that the rate limit allows in its window."
HEADER_REMAINING = "Requests left in the window."
HEADER_RESET = "Seconds until the window has room again."
HEADER_RETRY_AFTER = "Seconds to wait before the next attempt."
HEADER_RETRY_AFTER_IN_PROGRESS = (
    "Seconds to wait before the next attempt. Only for the reason `request-in-progress`."
)
HEADER_AUTHENTICATE = "How to authenticate: with a bearer token."
HEADER_ETAG = "A weak entity tag of the data. Send it as `If-None-Match` next time."
HEADER_CACHE_CONTROL = "The time for which the answer may be kept."
HEADER_THREAD = "The thread of the answer."
HEADER_CACHE_LOOKUP = (
    "`HIT` if the answer is the stored answer to an earlier request with the same `Idempotency-Key`."
)
HEADER_TRUNCATED = "`true` if the file has only the first rows. Narrow the listing with filters."

# Parameters
PARAMETER_SLUG = "Id or slug of the {resource}."

# Operations
ACCESS = "Access: {access}. Rate limit: {limit}."
CACHED = " Cached for {seconds} seconds."

# The document
API_INTRODUCTION = """\
The API of a campus marketplace with escrow.

- **Authentication**: send `Authorization: Bearer <ACCESS_TOKEN>`.
- **Money**: amounts are integers in kobo. Their field names end in `Minor`.
- **Times**: ISO 8601 in UTC.
- **Success**: a JSON envelope, `{success, data, meta}`. Later versions may add fields to answers and words to
  enumerations of answers: ignore fields and accept words that you do not know.
- **Null**: in a request body, null for an optional field means that the field is left out. `clear` empties fields.
- **Errors**: `application/problem+json`. The page `/errors/<slug>` explains each `code`. `reason` distinguishes
  refusals with the same code.
- **Paging**: collections return `next_cursor` in `meta`. Send its value as `cursor` to get the next page.
- **Idempotency**: where a route accepts `Idempotency-Key`, send a UUID of version 4. A repeated request with the
  same key has no further effect and gets the first response.
- **Examples**: reads and creations work as they stand on a fresh demo, with a token of the operation's
  `x-demo-persona`. Other examples, such as PINs and steps that are possible once, are valid but can be refused.
- **Versions**: every path under `/api` is also available under `/api/v1`.
"""
CONTACT = "Campus Marketplace support"
LICENSE = "All rights reserved"
LICENSE_IDENTIFIER = "LicenseRef-Proprietary"
SERVER = "This service"
BEARER = "An access token of the identity provider, a JWT."
FUNCTIONS_KEY = "One of the service's functions keys (FUNCTIONS_KEY)."
WEBHOOK_SIGNATURE = (
    "A Standard Webhooks signature of the body, with the headers `webhook-id` and `webhook-timestamp`."
    " The timestamp is at most five minutes old."
)
