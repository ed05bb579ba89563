"""Error messages, notifications and reports of the chat."""

CONVERSATION_NOT_FOUND = "Conversation not found."
MESSAGE_NOT_FOUND = "This conversation has no such message."
STORE_NOT_FOUND = "Store not found."
BLOCKED_MESSAGE_NOT_FOUND = "Blocked message not found."
OWN_STORE = "You cannot write to your own store."
STORE_CLOSED = "This store is closed and accepts no new conversations."
CONVERSATION_BLOCKED = "You cannot send messages in this conversation."
TOO_MANY_CONVERSATIONS = (
    "You can start {limit} conversations a day. Continue an earlier conversation or try again later."
)
PRODUCT_NOT_IN_STORE = "Must be a published product of this store."
ORDER_NOT_SHARED = "Must be an order between you and the other person."
IMAGE_IN_OTHER_MESSAGE = "Is already used in another message. Upload the picture again."
IMAGES_IN_OTHER_MESSAGE = "Some pictures are already used. See invalid_params."
CONTACT_DETAILS = (
    "The message was not sent because it contains {kinds}. Deals outside the platform lose the protection of your"
    " payment. After the order is shipped, exchange phone numbers through the conversation."
)
CONTACT_DETAILS_FIELD = "Remove {kinds}."
CONTACT_DETAILS_TOGETHER_FIELD = "Together with your last messages, this contains {kinds}. Leave this out."
ALREADY_REVIEWED = "This message is already reviewed."
PARTY_TO_MESSAGE = "You are a party to this conversation. Another officer must review the message."
NO_SHIPPED_ORDER = "You can exchange phone numbers once an order of this conversation is shipped."
PHONE_NOT_VERIFIED = "Verify your phone number first."
REPEATED_BLOCKS_DETAILS = (
    "The chat refused {count} messages of this person within 24 hours because of contact details."
)

MESSAGE_RECEIVED_TITLE = "New message from {sender}"
MESSAGE_RECEIVED_BODY = "Open the conversation to read and reply."
PHONE_REQUESTED_TITLE = "{sender} wants to exchange phone numbers"
PHONE_REQUESTED_BODY = "Your number stays hidden unless you agree in the conversation."
PHONES_SHARED_TITLE = "{sender} agreed to exchange phone numbers"
PHONES_SHARED_BODY = "You can now see each other's phone number in the conversation."
