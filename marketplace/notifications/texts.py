"""Error messages of the feed and of devices."""

NOTIFICATION_NOT_FOUND = "Notification not found."
DEVICE_NOT_FOUND = "Device not found."
INVALID_ENDPOINT = "Must be an https URL of a public push service."
INVALID_P256DH = "Must be a public key of the curve P-256 in base64url: 65 bytes that begin with 4."
INVALID_AUTH = "Must be 16 bytes in base64url."
SUBSCRIPTION_REQUIRED = "Is required for this kind. Leave out the other field."
