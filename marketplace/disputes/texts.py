"""Texts of disputes."""

DISPUTE_NOT_FOUND = "Dispute not found."
ALREADY_DISPUTED = "This order has an open dispute. Write there instead."
ITEMS_UNKNOWN = "Must be items of the order."
CLAIM_TOO_LARGE = "Must not exceed the escrow balance ({limit})."
CLAIM_MISSING = "Is required for a partial refund."
OWN_DISPUTE = "You opened this dispute, so the other side responds."
NOT_OPENER = "Only the side that opened the dispute can withdraw it."
SAME_OFFICER = "You proposed this ruling, so another officer must confirm it."
OTHER_RULING = (
    "Another officer proposed a different ruling. Send the same body to confirm it, or wait until {until}."
)
SPLIT_AMOUNT_MISSING = "Is required for a split without items."
AMOUNT_NOT_ALLOWED = "Is allowed for a split only."
SPLIT_WHOLE = "Must be less than the escrow balance ({limit}). Choose refund_buyer for a full refund."

REFUNDED_BY_FINANCE = "Finance refunded the order in full."

OPENED_TITLE = "A dispute was opened"
OPENED_BODY = (
    "Dispute {number} was opened about order {order_number}. The payment is frozen. Respond within 48 hours."
)
RESPONDED_TITLE = "The other side responded"
RESPONDED_BODY = "There is a response in dispute {number} about order {order_number}. Staff review the case."
FINDING_TITLE = "Staff wrote a first finding"
FINDING_BODY = "Staff wrote a first finding in dispute {number} about order {order_number}."
WITHDRAWN_TITLE = "The dispute was withdrawn"
WITHDRAWN_BODY = "Dispute {number} about order {order_number} was withdrawn. The order continues."
RULED_TITLE = "The dispute was ruled on"
RULED_BODY = {
    "resolved_buyer": (
        "Dispute {number} about order {order_number} was ruled for the buyer: {buyer} is refunded. Read the reasons"
        " in the dispute."
    ),
    "resolved_vendor": (
        "Dispute {number} about order {order_number} was ruled for the vendor: the payment is released. Read the"
        " reasons in the dispute."
    ),
    "resolved_split": (
        "Dispute {number} about order {order_number} was split: {buyer} is refunded, and the rest of the payment is"
        " released to the vendor. Read the reasons in the dispute."
    ),
}

BUYER_REMINDER_TITLE = "Did your order arrive?"
BUYER_REMINDER_BODY = (
    "Order {order_number} was shipped. Confirm the receipt if you have the items, or open a dispute if something is"
    " wrong. Without an answer, staff decide from {day} on."
)
SILENT_BUYER_DESCRIPTION = (
    "The buyer has neither confirmed the receipt nor opened a dispute for 14 days after shipping."
)
ESCALATED_TITLE = "Staff decide about the order"
ESCALATED_BODY = (
    "Order {order_number} was not confirmed for 14 days, so staff decide about the payment in dispute {number}. Write"
    " there what happened."
)
VENDOR_REMINDER_TITLE = "An order waits for you"
VENDOR_REMINDER_BODY = (
    "Order {order_number} was paid two days ago. Accept the order within two days. Otherwise, the order is cancelled"
    " and refunded."
)
SILENT_VENDOR_REASON = "The vendor did not accept the order within 96 hours."

OFFER_NOT_FOUND = "Offer not found."
OWN_OFFER = "You made this offer, so the other side decides."
OFFER_NOT_OPEN = "This offer is no longer open. Read the dispute, and make a new offer."
OFFERED_TITLE = "A settlement is offered"
OFFERED_BODY = (
    "The other side of dispute {number} about order {order_number} offers that {buyer} is refunded and the rest is"
    " released. Accept or decline within 72 hours."
)
DECLINED_TITLE = "Your offer was declined"
DECLINED_BODY = "Your offer in dispute {number} about order {order_number} was declined. The dispute goes on."
SETTLED_RATIONALE = "The buyer and the vendor agreed on a settlement."
SETTLED_TITLE = "The dispute is settled"
SETTLED_BODY = (
    "You agreed in dispute {number} about order {order_number}: {buyer} is refunded, and the rest of the payment is"
    " released."
)

NOTHING_TO_RETURN = "Must be false: the vendor keeps the payment, or the goods were never shipped."
BUYER_RETURNS = "The buyer returns the goods. Confirm the receipt when you have them."
VENDOR_RECEIVES = "The vendor confirms the receipt of the goods."
NO_OPEN_RETURN = "This dispute has no return in this stage. Read the dispute again."
RETURN_REQUESTED_TITLE = "Goods must be returned"
RETURN_REQUESTED_BODY = (
    "Dispute {number} about order {order_number}: return the goods to the vendor by {until}, and mark them as sent in"
    " the dispute. {buyer} is refunded when they arrive."
)
RETURN_REQUESTED_BODY_FOR_VENDOR = (
    "Dispute {number} about order {order_number}: the buyer returns the goods by {until}. Confirm the receipt in the"
    " dispute. {buyer} is then refunded to the buyer."
)
RETURN_SENT_TITLE = "The goods are on their way back"
RETURN_SENT_BODY = (
    "The buyer sent back the goods of order {order_number}. Confirm the receipt in dispute {number}."
)

NO_RULING = "Only a ruling of staff can be appealed. This dispute has none."
APPEAL_TIME_OVER = "A ruling can be appealed within 72 hours. This time is over."
NOTHING_TO_APPEAL = "The ruling gave you the full amount, so an appeal cannot change anything for you."
ALREADY_APPEALED = "This ruling was appealed before. A ruling can be appealed once."
NO_PENDING_APPEAL = "This dispute has no appeal that waits for a decision."
RULED_BEFORE = "You ruled on this dispute, so another officer must decide the appeal."
AMOUNT_OF_REJECTION = "Is allowed for a granted appeal only."
AMOUNT_OF_GRANT = "Is required for a granted appeal."
APPEAL_AMOUNT_TOO_LARGE = "Must not exceed {limit}, the amount that the appealing side can still receive."
LEDGER_APPEAL_GRANTED = "Granted appeal of dispute {number}"
APPEALED_TITLE = "The ruling was appealed"
APPEALED_BODY = (
    "The other side appealed the ruling in dispute {number} about order {order_number}. Another officer decides within"
    " 7 days."
)
APPEAL_DECIDED_TITLE = "The appeal was decided"
APPEAL_DECIDED_BODY = {
    ("granted", "buyer"): (
        "The buyer's appeal in dispute {number} about order {order_number} was granted: {amount} more is refunded."
    ),
    ("granted", "vendor"): (
        "The vendor's appeal in dispute {number} about order {order_number} was granted: the platform pays {amount} to"
        " the vendor."
    ),
    ("rejected", "buyer"): (
        "The buyer's appeal in dispute {number} about order {order_number} was rejected. The ruling stands."
    ),
    ("rejected", "vendor"): (
        "The vendor's appeal in dispute {number} about order {order_number} was rejected. The ruling stands."
    ),
}

EVIDENCE_NOT_FOUND = "Evidence not found."
EVIDENCE_SEALED = "The time for evidence is over, so the files can no longer change."
EVIDENCE_TOO_LARGE = "A file of this format must not exceed {limit} MB."
EVIDENCE_FORMATS = "`file` must be a JPEG, PNG, WebP, GIF, MP4, WebM, MOV or PDF."
TOO_MUCH_EVIDENCE = "A side can send {limit} files. Remove a file first."
EVIDENCE_ADDED_TITLE = "There is new evidence"
EVIDENCE_ADDED_BODY = "The other side added evidence to dispute {number} about order {order_number}."

PACK_TITLE = "Evidence in dispute {number}"
PACK_GENERATED = " · generated {at}"
PACK_ORDER = "Order"
PACK_ORDER_LINE = "Order {number}, placed {placed}, total {total}"
PACK_ITEM_LINE = "{quantity} x {title}, {price} each"
PACK_CHARGEBACK = "Chargeback"
PACK_CHARGEBACK_LINE = "Gateway's dispute {id}, category {category}, evidence due {due}"
PACK_STATEMENTS = "Statements"
PACK_COMPLAINT = "Opened by {side} ({reason}): {text}"
PACK_RESPONSE = "Response of the other side: {text}"
PACK_FINDING = "First finding of staff: {text}"
PACK_TRAIL = "Events of the order"
PACK_TRAIL_LINE = "{at}: {trigger} by {actor}"
PACK_DELIVERIES = "Messages with the delivery PIN to the buyer"
PACK_DELIVERY_LINE = "{at}: {channel}, {status}"
PACK_MESSAGES = "Messages between buyer and vendor"
PACK_MESSAGE_LINE = "{at}, {side}: {text}"
PACK_FILES = "Files"
PACK_FILE_LINE = "{name} (SHA-256 {sha256}) {note}"
PACK_FILE_LEFT_OUT = "left out because of the size"

CHARGEBACK_DESCRIPTION = "The buyer's bank disputes the payment."
CHARGEBACK_TITLE = "The buyer's bank disputes the payment"
CHARGEBACK_BODY = {
    "chargeback_opened": (
        "The buyer's bank disputes the payment of order {order_number}. Add your evidence to dispute {number}. We send"
        " the evidence to the bank."
    ),
    "chargeback_won": "The bank rejected the chargeback of order {order_number}. Staff rule in dispute {number}.",
    "chargeback_lost": (
        "The bank took back the payment of order {order_number}. Staff rule in dispute {number} who bears the loss."
    ),
    "chargeback_unclear": (
        "The bank decided about the payment of order {order_number}. Staff check the outcome in dispute {number}."
    ),
}

RESPONSE_DUE_TITLE = "Your response is due"
RESPONSE_DUE_BODY = (
    "Respond in dispute {number} about order {order_number} by {until}. Otherwise staff rule without it."
)
RESPONSE_MISSED_TITLE = "The time for the response is over"
RESPONSE_MISSED_BODY = {
    "buyer": (
        "The buyer did not respond in dispute {number} about order {order_number} within 48 hours. This counts against"
        " the buyer in the ruling."
    ),
    "vendor": (
        "The vendor did not respond in dispute {number} about order {order_number} within 48 hours. This counts against"
        " the vendor in the ruling."
    ),
}
EVIDENCE_DUE_TITLE = "Evidence is sealed soon"
EVIDENCE_DUE_BODY = (
    "Add your last files to dispute {number} about order {order_number} by {until}. Then it is sealed."
)
ALERT_DISPUTES_DUE = "Disputes are due soon"
ALERT_DISPUTES_OVERDUE = "Disputes are overdue"
ALERT_DISPUTES_ON_TIME = "No dispute needs this stage now."
