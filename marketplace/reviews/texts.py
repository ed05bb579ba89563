"""Error messages and notifications of reviews."""

UNSUITABLE_TEXT = "The text is not suitable for a public page. Change the named field and try again."
CONTACT_DETAILS_FIELD = "Contains contact details ({kinds}). Remove these details."
OFFENSIVE_LANGUAGE_FIELD = "Contains offensive language. Rephrase the text."

IMAGE_IN_OTHER_REVIEW = "Is used in another of your reviews. Choose another picture."
IMAGES_IN_OTHER_REVIEW = "A picture can be used in one review only. See invalid_params."
ORDER_NOT_DELIVERED = "The order is {status}. You can review a store after the delivery."
ORDER_REFUNDED_IN_FULL = "The order was refunded in full, so it cannot be reviewed."
ORDER_ALREADY_REVIEWED = (
    "You have already reviewed this order. Each order has one review, also after its deletion."
)
REVIEW_EDITS_CLOSED = "A review can be changed for {days} days. That time has passed."
REPLY_EDITS_CLOSED = "A reply can be changed for {days} days. That time has passed."
REVIEW_ALREADY_REPLIED = "The store has already replied to this review. Change the reply instead."
REVIEW_WITHOUT_REPLY = "The store has not replied to this review."

REVIEW_RECEIVED_TITLE = "New review"
REVIEW_RECEIVED_BODY = "A buyer rated order {order_number} with {stars}. You can reply once."
REPLY_RECEIVED_TITLE = "Reply to your review"
REPLY_RECEIVED_BODY = "{store} replied to your review of order {order_number}."
REVIEW_HIDDEN_TITLE = "Review hidden"
REVIEW_HIDDEN_BODY = (
    "Your review of order {order_number} was reported and is hidden from others."
    " Contact support if you disagree."
)
REVIEW_RESTORED_TITLE = "Review visible again"
REVIEW_RESTORED_BODY = "Our staff checked your review of order {order_number}. The review is visible again."
