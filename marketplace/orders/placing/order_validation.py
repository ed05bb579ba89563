"""Validate requested items: lock, check and price products, and plan an order for each vendor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.cart.operations import RequestedItem
from marketplace.catalog import stock
from marketplace.catalog.promotions import flash_sales
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.orders import texts
from marketplace.orders.pricing import Fees, OrderLine, Price, price_order
from marketplace.vendors.queries import Store, find_stores


class InsufficientStockError(ConflictError):
    """The requested quantity exceeds the available stock."""

    reason = "insufficient-stock"


class ProductUnavailableError(ValidationError):
    """The product does not exist or is not published."""

    reason = "product-unavailable"


class OwnStoreOrderError(ValidationError):
    """A product belongs to the caller's own store."""

    reason = "own-store-order"


class StoreClosedError(ValidationError):
    """The store is closed or on vacation, and accepts no orders now."""

    reason = "store-closed"


class OtherCampusError(ValidationError):
    """A product is sold on another campus than the buyer's or the other items'."""

    reason = "other-campus"


class SeveralVendorsError(ValidationError):
    """The items belong to several vendors. Use the checkout instead of a single order."""

    reason = "several-vendors"


@dataclass(frozen=True)
class VendorOrder:
    """A priced order to place with a vendor. The products' rows are locked.

    :param products: the product of each line, in the same order
    :param wallet_minor: the part that the buyer's wallet pays, in kobo
    """

    vendor_id: UUID
    campus_id: UUID
    products: Sequence[stock.LockedProduct]
    lines: Sequence[OrderLine]
    price: Price
    wallet_minor: int = 0

    @property
    def due_minor(self) -> int:
        """The amount left to pay after the wallet's part, in kobo."""
        return self.price.total_minor - self.wallet_minor


def validate_and_price(
    session: Session,
    items: Sequence[RequestedItem],
    *,
    buyer: Caller,
    fees: Fees,
    is_delivery: bool,
    single_vendor: bool,
    now: datetime,
) -> list[VendorOrder]:
    """Lock, check and price the requested items, grouped by vendor.

    Products are locked in the order of ids over all vendors, so two orders cannot deadlock.

    :param items: no product twice
    :param is_delivery: each vendor's delivery has a fee; pickup has none
    :param single_vendor: whether all items must belong to a single vendor
    :return: an order for each vendor, in the order of the vendors' first items
    :raises ProductUnavailableError: a product does not exist or is not published
    :raises OwnStoreOrderError: a product belongs to the buyer's own store
    :raises StoreClosedError: a store accepts no orders now
    :raises OtherCampusError: a product is sold on another campus
    :raises SeveralVendorsError: ``single_vendor`` is set and the items belong to several vendors
    :raises InsufficientStockError: a quantity exceeds the stock; the error names each such item
    """
    products = stock.lock_products(session, product_ids=[item.product_id for item in items])
    stores = find_stores(session, vendor_ids={product.vendor_id for product in products.values()})
    _ensure_orderable(items, products, stores, buyer=buyer, single_vendor=single_vendor, now=now)
    products = flash_sales.replace_ended_sales(session, products, now=now)
    items_by_vendor: dict[UUID, list[RequestedItem]] = {}
    for item in items:
        items_by_vendor.setdefault(products[item.product_id].vendor_id, []).append(item)
    vendor_orders = []
    for vendor_id, vendor_items in items_by_vendor.items():
        lines = [
            _price_line(products[item.product_id], item.quantity, fees, now=now) for item in vendor_items
        ]
        vendor_orders.append(
            VendorOrder(
                vendor_id,
                stores[vendor_id].campus_id,
                [products[item.product_id] for item in vendor_items],
                lines,
                price_order(lines, fees=fees, is_delivery=is_delivery),
            )
        )
    return vendor_orders


def _ensure_orderable(
    items: Sequence[RequestedItem],
    products: Mapping[UUID, stock.LockedProduct],
    stores: Mapping[UUID, Store],
    *,
    buyer: Caller,
    single_vendor: bool,
    now: datetime,
) -> None:
    """Check that all items can be ordered together.

    The error names each invalid item. The first invalid item decides its class.
    """
    errors: list[type[ValidationError]] = []
    faults = []
    campus_id = buyer.campus_id
    for index, item in enumerate(items):
        product = products.get(item.product_id)
        error: type[ValidationError] | None = None
        if product is None or not product.published:
            error, reason = ProductUnavailableError, "This product is not available."
        elif stores[product.vendor_id].user_id == buyer.id:
            error, reason = OwnStoreOrderError, "You cannot order from your own store."
        elif not stores[product.vendor_id].is_open(now):
            error, reason = StoreClosedError, "The store of this product accepts no orders now."
        else:
            campus_id = campus_id or product.campus_id
            if product.campus_id != campus_id:
                error = OtherCampusError
                reason = texts.OTHER_CAMPUS_ITEM
        if error:
            errors.append(error)
            faults.append(InvalidParam(f"items[{index}].productId", reason))
    if faults:
        raise errors[0](
            texts.ITEMS_NOT_ORDERABLE.format(first_name=faults[0].name, first_reason=faults[0].reason),
            invalid_params=faults,
        )
    if single_vendor and len({products[item.product_id].vendor_id for item in items}) > 1:
        raise SeveralVendorsError.of("items", texts.SEVERAL_VENDORS)
    shortages = [
        InvalidParam(
            f"items[{index}].quantity",
            f"Exceeds the available stock ({products[item.product_id].available}).",
        )
        for index, item in enumerate(items)
        if products[item.product_id].available < item.quantity
    ]
    if shortages:
        raise InsufficientStockError(texts.INSUFFICIENT_STOCK, invalid_params=shortages)


def _price_line(product: stock.LockedProduct, quantity: int, fees: Fees, *, now: datetime) -> OrderLine:
    """Price a line, at the flash sale's price if a running sale has enough units for the whole line."""
    commission = fees.commission_bps if product.commission_bps is None else product.commission_bps
    sale_price = product.sale_price(quantity=quantity, now=now)
    if sale_price is not None:
        return OrderLine(sale_price, quantity, commission, product.sale_id)
    return OrderLine(product.price_minor, quantity, commission)
