"""Texts of errors of external providers."""

PROVIDER_UNAVAILABLE = "The {provider} did not return a valid response. Try again in a few minutes."
GATEWAY_UNEXPECTED_RESPONSE = PROVIDER_UNAVAILABLE.format(provider="payment gateway")
GATEWAY_REQUEST_REFUSED = "The payment gateway refused the request. Try again in a few minutes."
GATEWAY_KEY_REFUSED = "The payment gateway rejected the API key of this service. Try again later."
GATEWAY_OTHER_PAYMENT = "The payment gateway returned a different payment. Try again in a few minutes."
GATEWAY_OTHER_TRANSFER = "The payment gateway returned a different transfer. Try again in a few minutes."
GATEWAY_TOO_MANY_REFUNDS = (
    "The payment gateway returned too many refunds for this charge. Check the gateway's dashboard."
)
GATEWAY_TOO_MANY_RECORDS = "The payment gateway returned too many records. Try again with a shorter period."
