"""Error messages of the feed, of live streams and of devices."""

NOTIFICATION_NOT_FOUND = "Notification not found."
DEVICE_NOT_FOUND = "Device not found."
INVALID_ENDPOINT = "Must be an https URL of a public push service."
INVALID_P256DH = "Must be a public key of the curve P-256 in base64url: 65 bytes that begin with 4."
INVALID_AUTH = "Must be 16 bytes in base64url."
SUBSCRIPTION_REQUIRED = "Is required for this kind. Leave out the other field."
TOO_MANY_STREAMS = "Too many event streams are open. Try again in a few seconds."
EVENTS_UNAVAILABLE = (
    "Live events are unavailable. Read the lists instead, and connect again in a few seconds."
)
INVALID_LAST_EVENT_ID = "Must be the id of an event of this stream."
# SMS with the delivery PIN, by language. One part of an SMS has 160 characters.
PIN_SMS = {
    "en": (
        "Campus Marketplace: the delivery PIN of order {order_number} is {pin}."
        " Give the PIN to the seller only after you have the item."
    ),
    "pcm": (
        "Campus Marketplace: {pin} na the PIN for order {order_number}."
        " No give seller the PIN until you don collect your thing."
    ),
}
SMS_TEXT = "{title}. {body}"
EMAIL_OPEN = "Open in the app"
EMAIL_PREFERENCES = "Notification settings"
EMAIL_FOOTER = "You receive this e-mail because you have an account on Campus Marketplace."
INVALID_UNSUBSCRIBE_TOKEN = "Must be the token of a link in an e-mail."  # noqa: S105 - a message
SMS_LIMIT_DETAIL = "No more SMS can be sent today. Try again tomorrow."
SMS_LIMIT_TITLE = "The limit of the SMS cost of a day is reached"
SMS_LIMIT_RESOLVED = "SMS are sent again."
KIND_NOT_DELIVERABLE = "Must be a registered kind of notification without a delivery PIN."
PERSON_NOT_FOUND = "Must be the id of a person."
