"""Descriptions and examples of fields in the OpenAPI document.

A field describes itself with ``metadata=doc(...)``. Fields that mean the same in every schema are described here once,
by name. A description or an example in a field's metadata comes first.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import marshmallow
from marshmallow import fields

from marketplace.kernel import demo_ids

_NO_EXAMPLE: Final = object()
# Times of the examples: an order is placed, paid, accepted, shipped and delivered.
PLACED_AT: Final = "2026-03-02T09:30:00Z"
PAID_AT: Final = "2026-03-02T09:34:00Z"
ACCEPTED_AT: Final = "2026-03-02T10:10:00Z"
SHIPPED_AT: Final = "2026-03-02T14:30:00Z"
DELIVERED_AT: Final = "2026-03-03T09:30:00Z"
PERIOD_START: Final = "2026-01-01T00:00:00Z"
PERIOD_END: Final = "2027-01-01T00:00:00Z"
# Promotions may only start in the future, so examples of new promotions lie far ahead.
PROMOTION_START: Final = "2035-03-01T08:00:00Z"
PROMOTION_END: Final = "2035-03-08T08:00:00Z"
# An id of a row that the demo does not have.
OTHER_ID: Final = "01958b3c-7a10-7c3e-9d52-4f6a8b0c1d2e"
REFERENCE: Final = "checkout-01958b3c7a107c3e9d524f6a8b0c1d2e"
# The service signs cursors, so only the service can make a valid cursor.
CURSOR: Final = "WzIwXQ.dQ4WInitwmVjNCANVEDIOQ"
FINGERPRINT: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PRODUCT_TITLE: Final = "Engineering Mathematics by Stroud, latest edition"
STORE_NAME: Final = "Ngozi Books & Gadgets"


def doc(description: str, example: Any = _NO_EXAMPLE) -> dict[str, Any]:
    """Build a field's metadata.

    :param description: meaning, unit, shape, range; no repetition of the name
    :param example: a JSON value that is valid by the field's schema. Without an example, the shared example of the
        field's name is used, then an example of the field's type
    """
    metadata: dict[str, Any] = {"description": description}
    if example is not _NO_EXAMPLE:
        metadata["example"] = example
    return metadata


@dataclass(frozen=True)
class SharedDoc:
    """The description and the example of all fields with a name."""

    description: str
    example: Any = _NO_EXAMPLE


def describe_field(field: fields.Field[Any], ret: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Complete a field's description and example: a function for apispec's converter.

    Objects and lists of objects get their examples later, from the examples of their fields.

    :param ret: properties of the field so far
    """
    schema = field.parent
    if not isinstance(schema, marshmallow.Schema):
        return {}  # an item of a list, which the list describes
    name = field.data_key or field.name or ""
    shared = SHARED_DOCS.get(name)
    found: dict[str, Any] = {}
    if shared is not None and "description" not in ret:
        found["description"] = shared.description
    if "example" in ret:
        found["example"] = _as_json(ret["example"])
    elif name == "id" and (example_id := getattr(schema, "example_id", None)):
        found["example"] = str(example_id)
    elif shared is not None and shared.example is not _NO_EXAMPLE:
        found["example"] = _as_json(shared.example)
    elif (example := _example_of_type(field)) is not _NO_EXAMPLE:
        found["example"] = example
    return found


def _as_json(example: Any) -> Any:
    match example:
        case list():
            return [_as_json(item) for item in example]
        case dict():
            return {key: _as_json(value) for key, value in example.items()}
        case UUID():
            return str(example)
    return example


def _example_of_type(field: fields.Field[Any]) -> Any:
    default = field.load_default
    if isinstance(default, int | str) and default != "":
        return default
    match field:
        case fields.Boolean():
            return True
        case fields.AwareDateTime():
            return PLACED_AT
        case fields.String(validate=marshmallow.validate.OneOf(choices=[str() as word, *_])):
            return word
    return _NO_EXAMPLE


SHARED_DOCS: Final[dict[str, SharedDoc]] = {
    # Envelope, paging and problems
    "success": SharedDoc("Always true. Errors have another form.", example=True),
    "data": SharedDoc("Result of the request."),
    "meta": SharedDoc("Facts about the response."),
    "requestId": SharedDoc(
        "Id of the request, also in the header `X-Request-ID`. Quote the id to support.",
        "3f2b7c1e-9a64-4d0f-8e57-1c2d3e4f5a6b",
    ),
    "timestamp": SharedDoc("Time of the response, in UTC.", PLACED_AT),
    "version": SharedDoc("Version of the API.", "1.0"),
    "limit": SharedDoc("Maximum number of items in a page.", 20),
    "cursor": SharedDoc(
        "`meta.next_cursor` of the previous page, with the same path and filters. Leave out for the first page.",
        CURSOR,
    ),
    "has_more": SharedDoc("Whether another page follows.", example=True),
    "next_cursor": SharedDoc("Opaque cursor of the next page; null on the last page.", CURSOR),
    "page": SharedDoc("Number of the page, from 1.", 1),
    "order": SharedDoc("Direction of the sort order.", "desc"),
    "sort": SharedDoc("Sort key, named like a field of the response."),
    "total": SharedDoc("Number of items on all pages.", 42),
    "total_pages": SharedDoc("Number of pages.", 3),
    "format": SharedDoc("Format of the response; JSON by default.", "json"),
    "from": SharedDoc("Start of the period, included.", PERIOD_START),
    "to": SharedDoc("End of the period, excluded.", PERIOD_END),
    # Ids and revisions
    "id": SharedDoc("Id of the resource, a UUID.", OTHER_ID),
    "revision": SharedDoc(
        "Number of the latest change, from 1. Send the number with a change to detect concurrent changes.", 1
    ),
    "productId": SharedDoc("Id of the product.", demo_ids.PRODUCT),
    "productIds": SharedDoc(
        "Ids of the products, in display order.", [demo_ids.PRODUCT, demo_ids.SECOND_PRODUCT]
    ),
    "categoryId": SharedDoc("Id of the category.", demo_ids.CATEGORY),
    "campusId": SharedDoc("Id of the campus.", demo_ids.CAMPUS),
    "vendorId": SharedDoc("Id of the store.", demo_ids.STORE),
    "imageId": SharedDoc("Id of an uploaded image.", demo_ids.IMAGE),
    "orderId": SharedDoc("Id of the order.", demo_ids.ORDER),
    "checkoutId": SharedDoc("Id of the checkout that the order belongs to.", OTHER_ID),
    "batchId": SharedDoc("Id of the payout batch.", demo_ids.PAYOUT_BATCH),
    "payoutId": SharedDoc("Id of the payout.", OTHER_ID),
    "runId": SharedDoc("Id of the reconciliation run.", demo_ids.RECONCILIATION),
    "transactionId": SharedDoc("Id of the ledger transaction.", OTHER_ID),
    "officerId": SharedDoc("User id of the officer.", demo_ids.FINANCE),
    "userId": SharedDoc("Id of the user.", demo_ids.BUYER),
    # Times
    "createdAt": SharedDoc("Time of creation, in UTC.", PLACED_AT),
    "updatedAt": SharedDoc("Time of the latest change, in UTC.", PLACED_AT),
    "publishedAt": SharedDoc("Time of the first publication.", PLACED_AT),
    "startsAt": SharedDoc("Start.", PROMOTION_START),
    "endsAt": SharedDoc("End; null for an open end.", PROMOTION_END),
    "endedAt": SharedDoc("Time of an early end by staff; null without an early end.", None),
    "endedBy": SharedDoc("User id of the officer who ended the promotion early.", None),
    "createdBy": SharedDoc("User id of the officer who created the promotion.", demo_ids.MODERATOR),
    "paidAt": SharedDoc("Time of the payment; null for unpaid.", PAID_AT),
    "acceptedAt": SharedDoc("Time when the vendor accepted the order.", ACCEPTED_AT),
    "shippedAt": SharedDoc("Time when the vendor shipped the order.", SHIPPED_AT),
    "deliveredAt": SharedDoc("Time when the escrow was released.", DELIVERED_AT),
    "settledAt": SharedDoc("Time of the final status; null until then.", DELIVERED_AT),
    "resolvedAt": SharedDoc("Time of the resolution; null while open.", DELIVERED_AT),
    "resolvedBy": SharedDoc("User id of the officer who resolved the case.", demo_ids.FINANCE),
    "resolutionNote": SharedDoc("The officer's reason.", "The gateway confirmed the transfer by e-mail."),
    "finishedAt": SharedDoc("Time of the end; null until then.", DELIVERED_AT),
    "approvedAt": SharedDoc("Time of the approval; null before.", DELIVERED_AT),
    "rejectedAt": SharedDoc("Time of the rejection; null without a rejection.", None),
    "rejectedBy": SharedDoc("Officer who rejected; null without a rejection.", None),
    "rejectionReason": SharedDoc(
        "Reason of the rejection, for the other officers.", "The total is out of date."
    ),
    "sentAt": SharedDoc("Time of the dispatch to the gateway; null before.", SHIPPED_AT),
    "stalledAt": SharedDoc("Time since when the payout counts as stalled.", DELIVERED_AT),
    "heldUntil": SharedDoc(
        "End of the hold of payouts; null without a hold or without a known end.", DELIVERED_AT
    ),
    "lastAt": SharedDoc("Time of the latest search.", PLACED_AT),
    "memberSince": SharedDoc("Time when the store was opened.", "2025-11-02T08:00:00Z"),
    "ageSeconds": SharedDoc("Age in seconds.", 86_400),
    # Money
    "currency": SharedDoc("Currency of all amounts, by ISO 4217.", "NGN"),
    "amountMinor": SharedDoc("Amount in kobo.", 715_000),
    "priceMinor": SharedDoc("Price of a unit in kobo.", 715_000),
    "unitPriceMinor": SharedDoc("Price of a unit in kobo.", 715_000),
    "regularPriceMinor": SharedDoc("Price of a unit without the flash sale, in kobo.", 715_000),
    "salePriceMinor": SharedDoc("Price of a unit in the sale, in kobo.", 500_500),
    "percentOff": SharedDoc("Discount on the regular price, in percent.", 30),
    "lineTotalMinor": SharedDoc("Unit price times quantity, in kobo.", 715_000),
    "subtotalMinor": SharedDoc("Sum of the items without fees, in kobo.", 715_000),
    "total_amount": SharedDoc("Total of the order with all fees, in kobo.", 775_000),
    "totalMinor": SharedDoc("Total of the order with all fees, in kobo.", 775_000),
    "owedMinor": SharedDoc("Debt in kobo, deducted from payouts first.", 0),
    "payableMinor": SharedDoc("Ledger balance payable to the vendor, in kobo.", 679_250),
    "inTransitMinor": SharedDoc("Sum of pending and sent payouts, in kobo.", 0),
    "minimumPayoutMinor": SharedDoc("Smallest payout in kobo.", 100_000),
    "commissionBps": SharedDoc("The platform's commission in basis points (hundredths of a percent).", 500),
    "balanceMinor": SharedDoc("Balance in kobo.", 679_250),
    # Products and stores
    "title": SharedDoc("Title.", PRODUCT_TITLE),
    "slug": SharedDoc("Name for URLs, in lower case with hyphens.", "textbooks"),
    "name": SharedDoc("Name.", "Amara Okafor"),
    "displayName": SharedDoc("Public name of the store.", STORE_NAME),
    "condition": SharedDoc("Condition of the article.", "new"),
    "quantity": SharedDoc("Number of units.", 1),
    "available": SharedDoc("Units that can be ordered: in stock and not reserved.", 50),
    "reserved": SharedDoc("Units in unpaid orders.", 0),
    "inStock": SharedDoc("Whether at least one unit can be ordered.", example=True),
    "imageUrl": SharedDoc("URL of the image.", "https://media.example.com/products/5e884898da280471.webp"),
    "tags": SharedDoc("Words for the search, in lower case.", ["textbook", "study"]),
    "exclusive": SharedDoc("Whether only this store sells the product.", example=False),
    "views": SharedDoc("Number of page views.", 120),
    "cartAdds": SharedDoc("Number of times that the product was added to a cart.", 14),
    "shares": SharedDoc("Number of times that the product was shared.", 3),
    "statusReason": SharedDoc("Reason of the status, for the owner; null without a reason.", None),
    "reviewState": SharedDoc(
        "`screening` or `held` for staff; null for a listing that is not in review.", None
    ),
    "reviewReasons": SharedDoc(
        "Findings of the screening, each a sentence with the necessary change.",
        ["Remove the phone number from the description."],
    ),
    "verified": SharedDoc("Whether the platform verified the owner.", example=True),
    "rating": SharedDoc("Average rating from 1 to 5; null without ratings.", 4.6),
    "ratingAverage": SharedDoc(
        "Average rating of the product's store from 1 to 5; null without ratings.", 4.6
    ),
    "ratingCount": SharedDoc("Number of ratings.", 18),
    "completedOrders": SharedDoc("Number of delivered orders.", 42),
    "flashSale": SharedDoc("Running flash sale; null without a sale."),
    "left": SharedDoc("Units left at the sale price; null for a sale without a limit.", 5),
    "position": SharedDoc("Display position, lowest first.", 0),
    "placement": SharedDoc("Place on the page.", "hero"),
    "subtitle": SharedDoc("Text below the title.", "Past questions and calculators"),
    "link": SharedDoc("Target: a path of the marketplace or an http or https URL.", "/vibes/exam-season"),
    "url": SharedDoc("URL of the image file.", "https://media.example.com/products/5e884898da280471.webp"),
    "width": SharedDoc("Width in pixels.", 480),
    "height": SharedDoc("Height in pixels.", 360),
    # Addresses
    "label": SharedDoc("Name of the address for its owner.", "My room"),
    "hostel": SharedDoc("Name of the hostel or building.", "Amina Hall"),
    "hall": SharedDoc("Block or wing.", "Block B"),
    "roomNumber": SharedDoc("Room number as on the door.", "107"),
    "latitude": SharedDoc(
        "Latitude in degrees, north positive. Send latitude and longitude together.", 6.5155
    ),
    "longitude": SharedDoc("Longitude in degrees, east positive.", 3.3872),
    "instructions": SharedDoc("Directions for the delivery.", "Call at the porter's lodge"),
    "phone": SharedDoc(
        "Mobile number in E.164 format. Input may be in national format, by default of Nigeria.",
        "+2348031234567",
    ),
    "isDefault": SharedDoc("Whether orders without an address use this address.", example=True),
    # Orders and payments
    "number": SharedDoc("Order number for people.", "CM-100001"),
    "orderNumber": SharedDoc("Order number for people; null without an order.", "CM-100001"),
    "escrowStatus": SharedDoc("State of the escrow.", "released"),
    "deliveryMethod": SharedDoc("Delivery to an address, or pickup at a hub.", "delivery"),
    "deliveryStatus": SharedDoc("Progress of the delivery.", "delivered"),
    "trackingNote": SharedDoc(
        "The vendor's note on the delivery, for the buyer.", "With our rider, on a red bicycle"
    ),
    "reference": SharedDoc("Payment reference, the same at the gateway.", REFERENCE),
    "paymentReference": SharedDoc("Payment reference, the same at the gateway.", REFERENCE),
    "channel": SharedDoc("Way of payment that the gateway reported.", "card"),
    "callbackUrl": SharedDoc(
        "Page to which the gateway sends the buyer after the payment. On the service's own address or an origin of"
        " `CORS_ORIGINS`.",
        "http://127.0.0.1:8000/docs",
    ),
    "destination": SharedDoc(
        "Recipient of the money: the card or bank by the gateway, or the buyer's wallet.", "wallet"
    ),
    "attempt": SharedDoc("Number of the attempt, from 1.", 1),
    "direction": SharedDoc("Side of the ledger entry.", "credit"),
    "nextActions": SharedDoc("Actions that the caller may take now.", ["cancel"]),
    # Bank accounts
    "bankCode": SharedDoc("Code of the bank, as listed by `GET /api/payments/banks`.", "058"),
    "bankName": SharedDoc("Name of the bank.", "Guaranty Trust Bank"),
    "accountNumber": SharedDoc(
        "Account number (NUBAN). Saved accounts show only the last four digits.", "******6789"
    ),
    "accountName": SharedDoc("Name of the account's holder at the bank.", "NGOZI ADEYEMI"),
    # Payout batches
    "paid": SharedDoc("Number of successful payments.", 1),
    "stalled": SharedDoc("Number of payments in transit for more than 48 hours.", 0),
    "stagedBy": SharedDoc("Officer who staged the batch; null for the schedule."),
    "dispatchedBy": SharedDoc("Officer who dispatched the batch; null before.", None),
    "dispatchedAt": SharedDoc("Time of the dispatch; null before.", SHIPPED_AT),
    "contentHash": SharedDoc("Fingerprint of the payments, SHA-256 in hexadecimal.", FINGERPRINT),
    # Proposals
    "proposedBy": SharedDoc("Officer who proposed the change."),
    "approvedBy": SharedDoc("Officer who approved the change; null before.", None),
    "expiresAt": SharedDoc("Time when the resource expires.", DELIVERED_AT),
    "expiredAt": SharedDoc("Time of the expiry; null without.", None),
    # Alerts
    "severity": SharedDoc("Urgency of the alert."),
    "identifier": SharedDoc("Kind of the alert."),
    "subject": SharedDoc("Resource that the alert is about.", f"refund:{OTHER_ID}"),
}
