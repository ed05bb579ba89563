"""Error messages of the cart."""

DUPLICATE_PRODUCT = "This product is in the cart twice. Send one line with the total quantity."
OTHER_CAMPUS_ITEM = (
    "This product is sold on another campus. A cart can have products of your own campus only."
)
INVALID_CART = "Some products cannot be in the cart. Remove them and try again."
