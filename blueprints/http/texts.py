"""Texts of the HTTP edge: problem details and the introduction of the OpenAPI document."""

# Authentication and access
AUTHORIZATION_MISSING = (
    "This route requires a bearer token. Send the header `Authorization: Bearer <ACCESS_TOKEN>`."
)
AUTHORIZATION_MALFORMED = "The Authorization header must have the form `Bearer <ACCESS_TOKEN>`."
FUNCTIONS_KEY_NOT_CONFIGURED = "The service cannot check the caller at the moment."
FUNCTION_CALL_UNAUTHORIZED = (
    "Send a functions key as `Authorization: Bearer <FUNCTIONS_KEY>`, or sign the body by Standard Webhooks."
)
ACCOUNT_NOT_ACTIVE = "Your account is {status}. See GET /api/users/me/account-status for the reason."

# Requests
FIELD_INVALID = "{name} is invalid. See invalid_params."
FIELDS_INVALID = "{names} and {last_name} are invalid. See invalid_params."
BODY_COMPRESSED = "The body must not be compressed."
UPLOAD_NOT_STORED = "The server cannot store the file right now. Try again in 30 seconds."
REQUEST_UNREADABLE = (
    "The server could not read the request ({error}). Check the URL, the headers and the body."
)
REQUEST_LINE_TOO_LONG = "The URL is too long. Send at most 8,000 bytes."
HEADERS_TOO_LARGE = "The headers are too large. Send at most 64 headers, each of at most 8,000 bytes."
METHOD_NOT_ALLOWED = "This resource does not support {method}. Use one of the methods in the Allow header."

SIGN_IN_AGAIN = "Sign in again, then repeat the request within 15 minutes."

# Failures of the service
INTERNAL_ERROR = (
    "An unexpected error occurred and was reported. If it persists, contact support and quote correlationId."
)

# PDF documents
PDF_PAGE = "Page {page} of {page_count}"
