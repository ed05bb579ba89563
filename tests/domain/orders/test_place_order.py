"""Placing orders: prices, reserved stock, delivery, and reasons for refusal."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from marketplace.cart.models import CartItem
from marketplace.cart.operations import RequestedItem
from marketplace.catalog.models import Product, ProductImage
from marketplace.identity.models import Address
from marketplace.kernel.errors import ValidationError
from marketplace.media.models import Image
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS, PAYMENT_WINDOW
from marketplace.orders.placing.order_validation import InsufficientStockError
from marketplace.orders.placing.place_order import Delivery, PriceChangedError, TooManyUnpaidOrdersError
from marketplace.orders.queries import is_image_used_by_orders
from marketplace.payments.refunds import order_cancellation
from marketplace.platform.models import Hub
from tests.support.purchases import (
    ADDRESS,
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    assert_ledger_is_consistent,
    later,
    make_campus,
    make_category,
    make_product,
    make_shop,
    make_store,
    pay,
    place,
    put_into_cart,
    row_of,
    stock_of,
    trail_of,
)


def make_hub(session: Session, campus_id: UUID, *, active: bool = True) -> UUID:
    hub = Hub(campus_id=campus_id, name="Main gate", address="Gate 1", opening_hours="8-18", active=active)
    session.add(hub)
    session.flush()
    return hub.id


def make_address(session: Session, user_id: UUID, *, hostel: str = "Jaja", is_default: bool = False) -> UUID:
    address = Address(user_id=user_id, hostel=hostel, room_number="7", is_default=is_default)
    session.add(address)
    session.flush()
    return address.id


def refused_params(refused: pytest.ExceptionInfo[ValidationError]) -> list[str]:
    assert refused.value.status == 422
    return [param.name for param in refused.value.invalid_params]


def test_placed_order_is_priced_reserved_and_pending_payment(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop, quantity=5, cover_key="lamp.webp")

    order_id = place(session, shop, product_id, quantity=2)

    order = row_of(session, "orders", id=order_id)
    total = 2 * PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
    expected = {
        "buyer_id": shop.buyer.id,
        "vendor_id": shop.store_id,
        "campus_id": shop.campus_id,
        "status": "pending_payment",
        "subtotal_minor": 2 * PRICE_MINOR,
        "delivery_fee_minor": DELIVERY_FEE_MINOR,
        "service_fee_minor": SERVICE_FEE_MINOR,
        "discount_minor": 0,
        "total_minor": total,
        "currency": "NGN",
        "shipping_address": ADDRESS,
        "expires_at": NOW + PAYMENT_WINDOW,
        "paid_at": None,
        "payment_reference": None,
    }
    assert {name: order[name] for name in expected} == expected
    item = row_of(session, "order_items", order_id=order_id)
    assert (item["title"], item["image_key"]) == ("Reading lamp", "lamp.webp")
    assert (item["unit_price_minor"], item["quantity"]) == (PRICE_MINOR, 2)
    assert item["commission_bps"] == COMMISSION_BPS
    escrow = row_of(session, "escrows", order_id=order_id)
    assert (escrow["status"], escrow["amount_minor"]) == ("pending", total)
    assert trail_of(session, order_id) == [(None, "pending_payment", "place", "buyer")]
    assert stock_of(session, product_id) == (5, 2)
    assert_ledger_is_consistent(session)


def test_category_commission_overrides_default_rate(session: Session) -> None:
    shop = make_shop(session, commission_bps=0)
    without_rate = make_product(session, shop)
    session.execute(
        update(Product)
        .where(Product.id == make_product(session, shop))
        .values(category_id=make_category(session, commission_bps=1_250))
    )
    with_rate = session.execute(text("SELECT id FROM products ORDER BY id DESC LIMIT 1")).scalar_one()

    order_id = place(session, shop, wishes=[RequestedItem(without_rate, 1), RequestedItem(with_rate, 1)])

    rates = session.execute(
        text("SELECT commission_bps FROM order_items WHERE order_id = :id ORDER BY position"),
        {"id": order_id},
    ).scalars()
    assert list(rates) == [0, 1_250]


def test_order_keeps_title_and_prices_after_product_changes(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop)
    order_id = place(session, shop, product_id)

    session.execute(
        update(Product)
        .where(Product.id == product_id)
        .values(price_minor=999, title="Other", status="paused")
    )
    session.execute(text("UPDATE platform_settings SET value = '0' WHERE key = 'service_fee_minor'"))
    pay(session, shop, order_id)

    item = row_of(session, "order_items", order_id=order_id)
    assert (item["title"], item["unit_price_minor"]) == ("Reading lamp", PRICE_MINOR)
    assert row_of(session, "orders", id=order_id)["service_fee_minor"] == SERVICE_FEE_MINOR


def test_order_keeps_revision_and_images_of_the_listing(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop)
    images = [Image(key=f"products/{uuid4()}.webp") for _ in range(2)]
    session.add_all(images)
    session.flush()
    for position, image in enumerate(images):
        session.add(ProductImage(product_id=product_id, position=position, image_id=image.id))
    session.execute(update(Product).where(Product.id == product_id).values(revision=3))
    order_id = place(session, shop, product_id)

    session.execute(delete(ProductImage).where(ProductImage.product_id == product_id))
    line = row_of(session, "order_items", order_id=order_id)

    assert (line["product_revision"], line["image_ids"]) == (3, [image.id for image in images])
    assert all(is_image_used_by_orders(session, image.id, image.key) for image in images)
    assert not is_image_used_by_orders(session, uuid4(), "products/other.webp")


def test_expected_total_must_equal_actual_total(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop)
    total = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR

    with pytest.raises(PriceChangedError, match=str(total)) as refused:
        place(session, shop, product_id, expected_total_minor=total - 1)

    assert refused.value.status == 409
    assert [param.name for param in refused.value.invalid_params] == ["expectedTotalMinor"]
    assert stock_of(session, product_id) == (5, 0)
    place(session, shop, product_id, expected_total_minor=total)


def test_insufficient_stock_of_item_is_refused(session: Session, shop: Shop) -> None:
    enough, short = make_product(session, shop, quantity=5), make_product(session, shop, quantity=2)
    place(session, shop, short)

    with pytest.raises(InsufficientStockError) as refused:
        place(session, shop, wishes=[RequestedItem(enough, 5), RequestedItem(short, 2)])

    assert refused.value.status == 409
    assert [(param.name, param.reason) for param in refused.value.invalid_params] == [
        ("items[1].quantity", "Exceeds the available stock (1).")
    ]
    assert stock_of(session, enough) == (5, 0)


@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_unpublished_product_is_refused(session: Session, shop: Shop, status: str) -> None:
    good, hidden = make_product(session, shop), make_product(session, shop, status=status)

    with pytest.raises(ValidationError) as refused:
        place(
            session,
            shop,
            wishes=[RequestedItem(good, 1), RequestedItem(hidden, 1), RequestedItem(uuid4(), 1)],
        )

    assert refused_params(refused) == ["items[1].productId", "items[2].productId"]


def test_order_of_several_vendors_is_refused(session: Session, shop: Shop) -> None:
    other_store, other_vendor = make_store(session, campus_id=shop.campus_id)
    other = Shop(shop.campus_id, shop.category_id, other_store, other_vendor, shop.buyer)

    with pytest.raises(ValidationError, match="several vendors") as refused:
        place(
            session,
            shop,
            wishes=[
                RequestedItem(make_product(session, shop), 1),
                RequestedItem(make_product(session, other), 1),
            ],
        )

    assert refused_params(refused) == ["items"]


def test_product_of_another_campus_is_refused(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop)
    elsewhere = replace(shop, buyer=replace(shop.buyer, campus_id=make_campus(session)))

    with pytest.raises(ValidationError) as refused:
        place(session, elsewhere, product_id)

    assert refused_params(refused) == ["items[0].productId"]
    assert place(session, replace(shop, buyer=replace(shop.buyer, campus_id=shop.campus_id)), product_id)


def test_vendor_cannot_buy_from_own_store(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop)
    vendor_as_buyer = Shop(shop.campus_id, shop.category_id, shop.store_id, shop.vendor, buyer=shop.vendor)

    with pytest.raises(ValidationError, match="own store") as refused:
        place(session, vendor_as_buyer, product_id)

    assert refused_params(refused) == ["items[0].productId"]
    assert stock_of(session, product_id) == (5, 0)


@pytest.mark.parametrize(
    "store",
    [
        {"status": "closed"},
        {"status": "suspended"},
        {"on_vacation": True},
        {"on_vacation": True, "vacation_until": NOW + timedelta(seconds=1)},
    ],
    ids=repr,
)
def test_closed_store_accepts_no_orders(session: Session, store: dict[str, object]) -> None:
    shop = make_shop(session, **store)

    with pytest.raises(ValidationError, match="accepts no orders"):
        place(session, shop, make_product(session, shop))


def test_store_accepts_orders_after_vacation_end(session: Session) -> None:
    shop = make_shop(session, on_vacation=True, vacation_until=NOW)

    order_id = place(session, shop, make_product(session, shop))

    assert row_of(session, "orders", id=order_id)["status"] == "pending_payment"


def test_sixth_unpaid_order_is_refused(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop, quantity=10)
    waiting = [place(session, shop, product_id) for _ in range(MAX_UNPAID_ORDERS)]

    with pytest.raises(TooManyUnpaidOrdersError, match="6 unpaid orders"):
        place(session, shop, product_id)

    pay(session, shop, waiting[0])
    place(session, shop, product_id)
    with pytest.raises(TooManyUnpaidOrdersError):
        place(session, shop, product_id)
    order_cancellation.cancel_order(session, order_id=waiting[1], caller=shop.buyer, reason=None, now=NOW)
    place(session, shop, product_id)


class TestCart:
    def test_cart_is_ordered_and_emptied(self, session: Session, shop: Shop) -> None:
        first, second = make_product(session, shop), make_product(session, shop)
        put_into_cart(session, shop.buyer.id, (second, 2), (first, 1))

        order_id = place(session, shop)

        rows = session.execute(
            text("SELECT product_id, quantity FROM order_items WHERE order_id = :id ORDER BY position"),
            {"id": order_id},
        ).all()
        assert [tuple(row) for row in rows] == [(second, 2), (first, 1)]
        # The order uses the product's current price, not the price stored in the cart.
        assert row_of(session, "orders", id=order_id)["subtotal_minor"] == 3 * PRICE_MINOR
        assert session.query(CartItem).filter_by(user_id=shop.buyer.id).count() == 0

    def test_order_of_explicit_items_leaves_cart_unchanged(self, session: Session, shop: Shop) -> None:
        product_id = make_product(session, shop)
        put_into_cart(session, shop.buyer.id, (product_id, 2))

        place(session, shop, product_id)

        assert session.query(CartItem).filter_by(user_id=shop.buyer.id).count() == 1

    def test_empty_cart_is_refused(self, session: Session, shop: Shop) -> None:
        with pytest.raises(ValidationError, match="cart is empty") as refused:
            place(session, shop)

        assert refused_params(refused) == ["items"]


class TestDelivery:
    def test_saved_address_is_copied_into_order(self, session: Session, shop: Shop) -> None:
        address_id = make_address(session, shop.buyer.id, hostel="Jaja")
        order_id = place(
            session,
            shop,
            make_product(session, shop),
            delivery=Delivery("delivery", address_id=address_id),
        )

        session.execute(update(Address).values(hostel="Moved away"))

        order = row_of(session, "orders", id=order_id)
        assert order["shipping_address"] == {"hostel": "Jaja", "roomNumber": "7"}

    def test_default_address_is_used_when_none_is_given(self, session: Session, shop: Shop) -> None:
        make_address(session, shop.buyer.id, hostel="Jaja")
        make_address(session, shop.buyer.id, hostel="Moremi", is_default=True)

        order_id = place(session, shop, make_product(session, shop), delivery=Delivery("delivery"))

        assert row_of(session, "orders", id=order_id)["shipping_address"]["hostel"] == "Moremi"

    def test_delivery_without_default_address_is_refused(self, session: Session, shop: Shop) -> None:
        make_address(session, shop.buyer.id)

        with pytest.raises(ValidationError) as refused:
            place(session, shop, make_product(session, shop), delivery=Delivery("delivery"))

        assert refused_params(refused) == ["addressId"]

    def test_address_of_another_person_is_refused(self, session: Session, shop: Shop) -> None:
        vendors_address = make_address(session, shop.vendor.id)

        with pytest.raises(ValidationError) as refused:
            place(
                session,
                shop,
                make_product(session, shop),
                delivery=Delivery("delivery", address_id=vendors_address),
            )

        assert refused_params(refused) == ["addressId"]

    def test_deleted_address_is_refused(self, session: Session, shop: Shop) -> None:
        address_id = make_address(session, shop.buyer.id)
        session.execute(update(Address).values(deleted_at=NOW))

        with pytest.raises(ValidationError):
            place(
                session,
                shop,
                make_product(session, shop),
                delivery=Delivery("delivery", address_id=address_id),
            )

    def test_pickup_at_hub_has_no_delivery_fee(self, session: Session, shop: Shop) -> None:
        hub_id = make_hub(session, shop.campus_id)

        order_id = place(
            session, shop, make_product(session, shop), delivery=Delivery("pickup", hub_id=hub_id)
        )

        order = row_of(session, "orders", id=order_id)
        assert order["shipping_address"] == {"hubId": str(hub_id), "hub": "Main gate", "address": "Gate 1"}
        assert (order["delivery_method"], order["delivery_fee_minor"]) == ("pickup", 0)
        assert order["total_minor"] == PRICE_MINOR + SERVICE_FEE_MINOR

    @pytest.mark.parametrize("hub", ["none", "unknown", "of another campus", "closed"])
    def test_invalid_hub_is_refused(self, session: Session, shop: Shop, hub: str) -> None:
        hub_id = {
            "none": None,
            "unknown": uuid4(),
            "of another campus": make_hub(session, make_campus(session)),
            "closed": make_hub(session, shop.campus_id, active=False),
        }[hub]

        with pytest.raises(ValidationError) as refused:
            place(session, shop, make_product(session, shop), delivery=Delivery("pickup", hub_id=hub_id))

        assert refused_params(refused) == ["hubId"]


@pytest.mark.parametrize(
    ("table", "values", "constraint"),
    [
        ("orders", "total_minor = total_minor + 1", "total"),
        ("orders", "discount_minor = -1, total_minor = total_minor + 1", "amounts_not_negative"),
        ("order_items", "quantity = quantity + 1", "line_total"),
        ("order_items", "commission_bps = 10001", "commission_bps"),
        ("escrows", "refunded_minor = amount_minor, released_minor = 1", "within_amount"),
    ],
)
def test_database_constraints_refuse_inconsistent_amounts(
    session: Session, shop: Shop, table: str, values: str, constraint: str
) -> None:
    order_id = place(session, shop, make_product(session, shop))
    key = "id" if table == "orders" else "order_id"

    with pytest.raises(Exception, match=f"ck_{table}_{constraint}"), session.begin_nested():
        session.execute(text(f"UPDATE {table} SET {values} WHERE {key} = :id"), {"id": order_id})


def test_database_constraint_refuses_overselling(session: Session, shop: Shop) -> None:
    product_id = make_product(session, shop, quantity=1)

    with pytest.raises(Exception, match="ck_products_reserved"), session.begin_nested():
        session.execute(update(Product).where(Product.id == product_id).values(reserved=2))


def test_order_expires_after_half_an_hour(session: Session, shop: Shop) -> None:
    order_id = place(session, shop, make_product(session, shop), now=later(hours=2))

    assert row_of(session, "orders", id=order_id)["expires_at"] == later(hours=2, minutes=30)


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True), (-1, True)])
def test_database_requires_subtotal_equal_to_sum_of_items(
    session: Session, shop: Shop, more: int, refused: bool
) -> None:
    order_id = place(session, shop, make_product(session, shop))
    columns = (
        "buyer_id, vendor_id, campus_id, status, delivery_fee_minor, service_fee_minor, discount_minor,"
        " delivery_method, shipping_address, expires_at"
    )
    copied = text(
        f"""
        WITH copied AS (
            INSERT INTO orders ({columns}, subtotal_minor, total_minor)
            SELECT {columns}, subtotal_minor + :more, total_minor + :more FROM orders WHERE id = :id RETURNING id
        )
        INSERT INTO order_items (order_id, position, product_id, title, unit_price_minor, quantity,
            line_total_minor, commission_bps)
        SELECT c.id, i.position, i.product_id, i.title, i.unit_price_minor, i.quantity, i.line_total_minor,
            i.commission_bps FROM copied c, order_items i WHERE i.order_id = :id
        """
    )

    try:
        with session.begin_nested():
            session.execute(copied, {"id": order_id, "more": more})
        error_text = ""
    except DBAPIError as error:
        error_text = str(error)

    assert ("do not add up to the subtotal" in error_text) == refused
