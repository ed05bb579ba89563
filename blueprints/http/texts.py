"""Texts of the HTTP edge: problem details and the introduction of the OpenAPI document."""

# Authentication and access
AUTHORIZATION_MISSING = (
    "This route requires a bearer token. Send the header `Authorization: Bearer <ACCESS_TOKEN>`."
)
AUTHORIZATION_MALFORMED = "The Authorization header must have the form `Bearer <ACCESS_TOKEN>`."
ACCOUNT_NOT_ACTIVE = "Your account is {status}. Contact support for details."

# Requests
FIELD_INVALID = "{name} is invalid. See invalid_params."
FIELDS_INVALID = "{names} and {last_name} are invalid. See invalid_params."
BODY_COMPRESSED = "The body must not be compressed."
UPLOAD_NOT_STORED = "The server cannot store the file right now. Try again in 30 seconds."
REQUEST_UNREADABLE = (
    "The server could not read the request ({error}). Check the URL, the headers and the body."
)
METHOD_NOT_ALLOWED = "This resource does not support {method}. Use one of the methods in the Allow header."

# Failures of the service
INTERNAL_ERROR = (
    "An unexpected error occurred and was reported. If it persists, contact support and quote correlationId."
)

# The OpenAPI document, in Markdown
API_INTRODUCTION = """\
The API of a campus marketplace with escrow.

- **Authentication**: send `Authorization: Bearer <ACCESS_TOKEN>`.
- **Money**: amounts are integers in kobo. Their field names end in `Minor`.
- **Times**: ISO 8601 in UTC.
- **Success**: a JSON envelope, `{success, data, meta}`.
- **Errors**: `application/problem+json`. The page `/errors/<slug>` explains each `code`. `reason` distinguishes
  refusals with the same code.
- **Paging**: collections return `next_cursor` in `meta`. Send its value as `cursor` to get the next page.
- **Idempotency**: where a route accepts `Idempotency-Key`, send a UUID of version 4. A repeated request with the
  same key has no further effect and gets the first response.
- **Examples**: reads and creations work as they stand on a fresh demo, with a token of the operation's
  `x-demo-persona`. Other examples, such as PINs and steps that are possible once, are valid but can be refused.
- **Versions**: every path under `/api` is also available under `/api/v1`.
"""
