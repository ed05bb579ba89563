"""Error messages of the cart."""

DUPLICATE_PRODUCT = "This product is in the cart twice. Send one line with the total quantity."
OTHER_CAMPUS_ITEM = (
    "This product is sold on another campus. A cart can have products of your own campus only."
)
INVALID_CART = "Some lines of the cart are not allowed. Correct or remove the lines named in invalid_params."
