"""Texts of the catalog: notifications to vendors, results of the listing review, and refusals."""

# Notifications to vendors about a listing.

PRODUCT_PUBLISHED_TITLE = "Your listing is live"
PRODUCT_PUBLISHED_BODY = "Buyers can now see and order \u201c{listing}\u201d."

PRODUCT_APPROVED_TITLE = "Your listing is live"
PRODUCT_APPROVED_BODY = "Our staff approved \u201c{listing}\u201d. Buyers can now see and order it."

PRODUCT_HELD_TITLE = "Your listing is waiting for review"
PRODUCT_HELD_BODY = "Our staff will review \u201c{listing}\u201d before buyers can see it. {reasons}"

PRODUCT_REJECTED_TITLE = "Your listing was not approved"
PRODUCT_REJECTED_BODY = (
    "\u201c{listing}\u201d was not approved. Edit the listing and submit it again. Reason: {reason}"
)

PRODUCT_REMOVED_TITLE = "Your listing was taken down"
PRODUCT_REMOVED_BODY = (
    "Our staff took down \u201c{listing}\u201d. Buyers can no longer see it, and only our staff can restore it."
    " Reason: {reason}"
)

PRODUCT_DELETED_TITLE = "Your listing was deleted"
PRODUCT_DELETED_BODY = "Our staff deleted \u201c{listing}\u201d. Buyers can no longer see it."
PRODUCT_DELETED_REASON = "Reason: {reason}"

# Notifications to people about their favourites.

FAVORITE_PRICE_DROPPED_TITLE = "Lower price of a favourite"
FAVORITE_PRICE_DROPPED_BODY = "\u201c{listing}\u201d now costs {price}."
FAVORITE_RESTOCKED_TITLE = "A favourite is back in stock"
FAVORITE_RESTOCKED_BODY = "\u201c{listing}\u201d is available again for {price}."

# Results of the listing review. Vendors read them beside the listing and in the notification.

PREVIOUSLY_REJECTED = (
    "Our staff turned down an earlier version of this listing, so they will review this version too."
    " You do not need to do anything."
)
REPORTED_BY_BUYERS = (
    "Several buyers reported this listing, so our staff will review the listing."
    " You do not need to do anything."
)
NOT_CHECKED_IN_TIME = (
    "The automatic check of this listing took too long, so our staff will review it."
    " You do not need to do anything."
)
FLAGGED_BY_PROVIDER = (
    "The automatic check flagged the wording of this listing."
    " Change the wording, or wait for our staff to review the listing."
)
FLAGGED_BY_PROVIDER_WITH_CATEGORIES = (
    "The automatic check flagged the wording of this listing ({categories})."
    " Change the wording, or wait for our staff to review the listing."
)

TITLE_LENGTH = "The title must have {minimum} to {maximum} characters."
TITLE_WITHOUT_WORDS = "The title must describe the product in words."
TITLE_REPEATS_LETTER = "The title must not repeat a letter {length} or more times in a row."
DESCRIPTION_TOO_LONG = "The description must have at most {maximum} characters."
PRICE_OUT_OF_RANGE = "The price must be between {minimum} and {maximum}."
CONDITION_UNKNOWN = "The condition must be one of: {conditions}."
TOO_MANY_TAGS = "A listing can have at most {tags} tags of at most {characters} characters each."
TOO_MANY_IMAGES = "A listing can have at most {maximum} images."

BANNED_TERM = (
    "\u201c{term}\u201d can refer to {category}, which you may not sell here."
    " Remove the term, or use other words if you sell something else."
)

CONTACT_DETAILS_IN_TITLE = (
    "The title contains {contact_details}."
    " Remove contact details, because buyers reach you through the marketplace."
)
CONTACT_DETAILS_IN_DESCRIPTION = (
    "The description contains {contact_details}."
    " Remove contact details, because buyers reach you through the marketplace."
)
CONTACT_DETAILS_IN_TAGS = (
    "The tags contain {contact_details}."
    " Remove contact details, because buyers reach you through the marketplace."
)
CONTACT_DETAILS_ACROSS_FIELDS = (
    "Read together, the title, the description and the tags contain {contact_details}."
    " Remove contact details, because buyers reach you through the marketplace."
)

PRICE_FAR_ABOVE_USUAL = (
    "The price is far above the usual price in this category."
    " Check the category, and check the price for an extra zero."
)
PRICE_FAR_BELOW_USUAL = (
    "The price is far below the usual price in this category."
    " Check the category, and check the price for a missing zero."
)

# Refusals of favourites.

TOO_MANY_FAVORITES = "You can have at most {limit} favourites. Remove a favourite first."

# Refusals of changes to listings and images.

IMAGES_NOT_FOUND = "Some images are not among your uploads. Upload them, then send their new ids."
NO_STORE_YET = "You do not have a store yet. You can list products after we approve your vendor application."
NOT_BACK_TO_DRAFT = (
    "The listing is {status} and cannot become a draft again. To hide a published listing, pause it."
)
OWN_LISTINGS_IN_BULK = (
    "You cannot delete your own store's listings as an officer. Remove their ids from the request."
)

# Refusals of promotions.

STARTS_IN_PAST = "`startsAt` must not be in the past. Omit `startsAt` to start a new promotion now."
STARTS_AFTER_END = "`startsAt` must be before `endsAt`."
ENDS_IN_PAST = "`endsAt` must be in the future."
LASTS_TOO_LONG = "`endsAt` must be at most {days} days after `startsAt`."
PROMOTION_ENDED = "The promotion ended at {ended_at}. Create a new promotion."
OWN_STORE_PROMOTION = "You cannot promote your own store's products. Ask another officer."
IMAGE_NOT_FOUND = "Image not found. Upload the image first, then send its id."
FLASH_SALE_OVERLAPS = (
    "The product already has a flash sale from {starts_at} to {ends_at}. Choose another period."
)
ALREADY_FEATURED = "The product is already featured from {starts_at}. Choose another period."
SALE_PRICE_TOO_LOW = (
    "Must be at least {minimum} kobo."
    " A sale takes off at most {max_percent} percent, and no price is below {min_price} kobo."
)
VIBE_PRODUCTS_INVALID = "The vibe cannot show some of the products. See invalid_params."

# Refusals of search synonyms.

TOO_MANY_SYNONYM_GROUPS = "There are already {maximum} synonym groups. Delete a group first."
SYNONYM_TERMS_INVALID = "Each term must have 1 to {maximum} words. See invalid_params."
