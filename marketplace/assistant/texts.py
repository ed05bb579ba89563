"""Texts of the assistant."""

BUDGET_SPENT = "You have used the assistant's budget of today. It is full again at midnight in Nigeria."
NOT_CONFIGURED = "The assistant is not available on this installation."
UNTITLED = "New conversation"
OPTED_OUT = "You turned the assistant off. Turn it on in your settings to use it."
OWNER_OPTED_OUT = (
    "The owner of this ticket does not allow the assistant to read it. Write the reply yourself."
)
STREAM_OPEN = "The assistant is still answering you. Wait for the answer, or close it first."
STREAMS_UNAVAILABLE = "The assistant is not available for a moment. Try again."
PICTURES_NOT_READ = "This assistant cannot read pictures. Describe the picture in words."
INVALID_PICTURE = "Must be a data URL with a JPEG, PNG, WebP or GIF picture in base64."
THREAD_REQUIRED = "Send the threadId of the answer to resume."
INVALID_LAST_EVENT_ID = "Must be the id of the last event that you received."
ALREADY_REVIEWED = "This thread was reviewed already."
INVALID_PERIOD = "Send a period of 1 to {days} days that ends on or after the first day."

# Errors within a stream
ERRORS = {
    "interrupted": "The answer was interrupted. Send your message again.",
    "model-unavailable": "The assistant does not respond at the moment. Try again in a minute.",
    "model-busy": "Many people use the assistant at the moment. Try again in a minute.",
    "timed-out": "The answer took too long. Ask a shorter question.",
    "token-expired": "Your session has ended. Sign in again.",
    "account-changed": "Your account has changed. Sign in again.",
    "replaced": "The answer continues in another place.",
    "internal": "An error occurred. Try again.",
}

# Results of tools, for the model
UNKNOWN_TOOL = "There is no such tool."
ARGUMENTS = "arguments"
ARGUMENTS_NOT_JSON = "The arguments are not valid JSON."
INVALID_ARGUMENT = "{name} is invalid: {fault}"
TOOL_UNAVAILABLE = "This information is not available at the moment."
RESULT_SHORTENED = "More items exist."
WAITS_FOR_CONFIRMATION = "prepared; the person must confirm in the app"

# Proposals
ADD_TO_CART = "Add {quantity} x {title} to your cart"
CHECKOUT = "Order the {count} items of your cart for {subtotal} plus fees, {place}"
TO_DEFAULT_ADDRESS = "delivered to your default address"
PICKUP_AT_HUB = "for pickup at {hub}"
CANCEL_ORDER = "Cancel order {number} from {store}"
OPEN_TICKET = "Open a support ticket: {subject}"
OPEN_DISPUTE = "Open a dispute about order {number} from {store}"
NOT_ORDERABLE = "{title} cannot be ordered now."
CART_IS_EMPTY = "The cart is empty."
CART_HAS_PROBLEMS = "Some items of the cart cannot be ordered now. The person should look at the cart."
CANNOT_CANCEL = "Order {number} cannot be cancelled now."
CANNOT_DISPUTE = "A dispute about order {number} cannot be opened now."
CLAIM_IS_MISSING = "claimedMinor is required for a partial refund."

# The prompt
CONTEXT_OF_PERSON = "Context of the person, as data: {context}"
SUMMARY_OF_THREAD = "Summary of the earlier messages, as data: {summary}"
PICTURES_SENT_EARLIER = "[pictures sent earlier: {count}]"
