"""A whole purchase with the client that openapi-generator makes of the OpenAPI document.

``make clients`` generates the client, checks the types of this module, and runs
``purchase_openapi_generator.py API GATEWAY BUYER_TOKEN VENDOR_TOKEN``. By pydantic, the client validates each answer
against the document. The module has no cast. A buyer pays at the sandbox gateway in a browser, so only this request is
sent without the client.
"""

import sys
from uuid import uuid4

import urllib3
from marketplace_api import (
    ApiClient,
    ApiException,
    CartApi,
    CatalogApi,
    Configuration,
    DeliveryPin,
    EscrowStatus,
    FulfilmentStatus,
    FulfilmentUpdate,
    InitializePayment,
    NextAction,
    OrdersApi,
    OrderStatus,
    PaymentIntentStatus,
    PaymentsApi,
    PlaceOrder,
    Problem,
    ProblemCode,
    ProductCard,
    RequestedCartItem,
    RequestedOrderItem,
    ShippingAddress,
    SynchroniseCart,
    TransactionsApi,
    VerifyPayment,
)

STORE = "ngozi-books-gadgets"


def find_product(catalog: CatalogApi) -> ProductCard:
    """Return a product in stock of the vendor's store, page by page."""
    page = catalog.list_products(in_stock=True, limit=100)
    while True:
        for product in page.data:
            if product.vendor.slug == STORE:
                return product
        assert page.meta.next_cursor is not None, "the store offers no product"
        page = catalog.list_products(in_stock=True, limit=100, cursor=page.meta.next_cursor)


def main(api: str, gateway: str, buyer_token: str, vendor_token: str) -> None:
    """Play the purchase. Each step must answer as documented."""
    visitor = ApiClient(Configuration(host=api))
    buyer = ApiClient(Configuration(host=api, access_token=buyer_token))
    vendor = ApiClient(Configuration(host=api, access_token=vendor_token))
    bought, sold, payments = OrdersApi(buyer), OrdersApi(vendor), PaymentsApi(buyer)

    catalog = CatalogApi(visitor)
    card = find_product(catalog)
    product = catalog.get_product(card.id).data
    assert product.price_minor == card.price_minor

    items = [RequestedCartItem(productId=product.id, quantity=1)]
    cart = CartApi(buyer).synchronise_cart(SynchroniseCart(items=items)).data
    assert (cart.valid, cart.item_count) == (True, 1)

    placed = bought.place_order(
        idempotency_key=str(uuid4()),
        place_order=PlaceOrder(
            items=[RequestedOrderItem(productId=product.id, quantity=1)],
            shippingAddress=ShippingAddress(hostel="Moremi Hall", roomNumber="B204"),
        ),
    ).data
    assert placed.status == OrderStatus.PENDING_PAYMENT
    assert NextAction.PAY in placed.next_actions

    page = payments.initialize_payment(str(uuid4()), InitializePayment(orderId=placed.id)).data
    assert page.amount_minor == placed.total_amount
    assert urllib3.request("POST", f"{gateway}/sandbox/pay/{page.reference}").status == 200
    payment = payments.verify_payment(VerifyPayment(reference=page.reference)).data
    assert payment.status == PaymentIntentStatus.SUCCEEDED
    paid = bought.get_order(placed.id).data
    assert (paid.status, paid.escrow_status) == (OrderStatus.PAID_ESCROW, EscrowStatus.HELD)
    assert paid.delivery_pin is not None

    assert sold.accept_order(placed.id).data.status == OrderStatus.PROCESSING
    update = FulfilmentUpdate(status=FulfilmentStatus.SHIPPED, trackingNote="With our rider")
    shipped = sold.update_order_status(placed.id, update).data
    assert (shipped.status, shipped.delivery_pin) == (OrderStatus.SHIPPED, None)

    wrong = f"{(int(paid.delivery_pin) + 1) % 1_000_000:06}"
    try:
        sold.verify_delivery_pin(placed.id, DeliveryPin(pin=wrong))
        problem = None
    except ApiException as refused:
        problem = refused.data
    assert isinstance(problem, Problem), "a wrong PIN was accepted"
    assert (problem.status, problem.code) == (400, ProblemCode.DELIVERY_PIN_INVALID)
    delivered = sold.verify_delivery_pin(placed.id, DeliveryPin(pin=paid.delivery_pin)).data
    assert (delivered.status, delivered.escrow_status) == (OrderStatus.DELIVERED, EscrowStatus.RELEASED)

    events = bought.list_order_events(placed.id).data
    assert events[-1].to == OrderStatus.DELIVERED
    assert TransactionsApi(vendor).list_transactions(order_id=placed.id).data
    print(f"bought {product.title} in order {placed.number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
