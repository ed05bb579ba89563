"""A whole purchase with the client that openapi-python-client makes of the OpenAPI document.

``make test`` and ``make clients`` generate the client, check the types of this module strictly, and run
``purchase_openapi_python_client.py API GATEWAY BUYER_TOKEN VENDOR_TOKEN``. The module has no cast. A buyer pays at the
sandbox gateway in a browser, so only this request is sent without the client.
"""

import sys
from typing import TypeVar
from uuid import uuid4

import requests
from campus_marketplace_client import AuthenticatedClient, Client
from campus_marketplace_client.api.cart import synchronise_cart
from campus_marketplace_client.api.catalog import get_product, list_products
from campus_marketplace_client.api.orders import (
    accept_order,
    get_order,
    list_order_events,
    place_order,
    update_order_status,
    verify_delivery_pin,
)
from campus_marketplace_client.api.payments import initialize_payment, verify_payment
from campus_marketplace_client.api.transactions import list_transactions
from campus_marketplace_client.models import (
    DeliveryPin,
    EscrowStatus,
    FulfilmentStatus,
    FulfilmentUpdate,
    InitializePayment,
    LedgerDirection,
    NextAction,
    OrderStatus,
    PaymentIntentStatus,
    PlaceOrder,
    Problem,
    ProblemCode,
    ProductCard,
    ProductCardPageEnvelope,
    RequestedCartItem,
    RequestedOrderItem,
    ShippingAddress,
    SynchroniseCart,
    VerifyPayment,
)
from campus_marketplace_client.types import UNSET, Unset

STORE = "ngozi-books-gadgets"
Answer = TypeVar("Answer")


def answered(answer: Answer | Problem | None) -> Answer:
    """Return the answer of a request that must succeed."""
    assert answer is not None, "the answer is not in the document"
    assert not isinstance(answer, Problem), answer
    return answer


def find_product(client: Client) -> ProductCard:
    """Return a product in stock of the vendor's store, page by page."""
    cursor: str | Unset = UNSET
    while True:
        page = list_products.sync(client=client, in_stock=True, limit=100, cursor=cursor)
        assert isinstance(page, ProductCardPageEnvelope), page
        for product in page.data:
            if product.vendor.slug == STORE:
                return product
        assert page.meta.next_cursor is not None, "the store offers no product"
        cursor = page.meta.next_cursor


def main(api: str, gateway: str, buyer_token: str, vendor_token: str) -> None:
    """Play the purchase. Each step must answer as documented."""
    visitor = Client(base_url=api, raise_on_unexpected_status=True)
    buyer = AuthenticatedClient(base_url=api, token=buyer_token, raise_on_unexpected_status=True)
    vendor = AuthenticatedClient(base_url=api, token=vendor_token, raise_on_unexpected_status=True)

    card = find_product(visitor)
    product = answered(get_product.sync(card.id, client=buyer)).data
    assert product.price_minor == card.price_minor

    items = [RequestedCartItem(product_id=product.id, quantity=1)]
    cart = answered(synchronise_cart.sync(client=buyer, body=SynchroniseCart(items=items))).data
    assert (cart.valid, cart.item_count) == (True, 1)

    placed = answered(
        place_order.sync(
            client=buyer,
            body=PlaceOrder(
                items=[RequestedOrderItem(product_id=product.id, quantity=1)],
                shipping_address=ShippingAddress(hostel="Moremi Hall", room_number="B204"),
            ),
            idempotency_key=str(uuid4()),
        )
    ).data
    assert placed.status == OrderStatus.PENDING_PAYMENT
    assert NextAction.PAY in placed.next_actions

    page = answered(
        initialize_payment.sync(
            client=buyer, body=InitializePayment(order_id=placed.id), idempotency_key=str(uuid4())
        )
    ).data
    assert page.amount_minor == placed.total_amount
    requests.post(f"{gateway}/sandbox/pay/{page.reference}", timeout=10).raise_for_status()
    payment = answered(verify_payment.sync(client=buyer, body=VerifyPayment(reference=page.reference))).data
    assert payment.status == PaymentIntentStatus.SUCCEEDED
    paid = answered(get_order.sync(placed.id, client=buyer)).data
    assert (paid.status, paid.escrow_status) == (OrderStatus.PAID_ESCROW, EscrowStatus.HELD)
    assert paid.delivery_pin is not None

    accepted = answered(accept_order.sync(placed.id, client=vendor)).data
    assert accepted.status == OrderStatus.PROCESSING
    shipped = answered(
        update_order_status.sync(
            placed.id,
            client=vendor,
            body=FulfilmentUpdate(status=FulfilmentStatus.SHIPPED, tracking_note="With our rider"),
        )
    ).data
    assert (shipped.status, shipped.delivery_pin) == (OrderStatus.SHIPPED, None)

    wrong = f"{(int(paid.delivery_pin) + 1) % 1_000_000:06}"
    refused = verify_delivery_pin.sync(placed.id, client=vendor, body=DeliveryPin(pin=wrong))
    assert isinstance(refused, Problem)
    assert (refused.status, refused.code) == (400, ProblemCode.DELIVERY_PIN_INVALID)
    delivered = answered(
        verify_delivery_pin.sync(placed.id, client=vendor, body=DeliveryPin(pin=paid.delivery_pin))
    ).data
    assert (delivered.status, delivered.escrow_status) == (OrderStatus.DELIVERED, EscrowStatus.RELEASED)

    events = answered(list_order_events.sync(placed.id, client=buyer)).data
    assert [event.to for event in events][-1] == OrderStatus.DELIVERED
    income = answered(list_transactions.sync(client=vendor, order_id=placed.id)).data
    assert income
    assert all(entry.direction == LedgerDirection.CREDIT for entry in income if entry.amount_minor)
    print(f"bought {product.title} in order {placed.number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
