"""What is ordered, held against what is to be had: locked, checked, priced, and packed into a parcel per vendor."""

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
from marketplace.orders.pricing import Fees, OrderLine, Price, price_order
from marketplace.vendors.queries import Store, find_stores


class InsufficientStockError(ConflictError):
    """Another buyer has taken the stock."""

    reason = "insufficient-stock"


class ProductUnavailableError(ValidationError):
    """The product does not exist or is not published."""

    reason = "product-unavailable"


class OwnStoreOrderError(ValidationError):
    """Vendors may not order from their own store."""

    reason = "own-store-order"


class StoreClosedError(ValidationError):
    """The store accepts no orders at the moment."""

    reason = "store-closed"


class OtherCampusError(ValidationError):
    """The product is sold on another campus than the buyer's or than the other items."""

    reason = "other-campus"


class SeveralVendorsError(ValidationError):
    """An order has items of several vendors, which takes a checkout."""

    reason = "several-vendors"


@dataclass(frozen=True)
class VendorOrder:
    """What one vendor is to deliver: priced, each line with the product that it is of, whose row is locked.

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
        """What remains to be paid, in kobo."""
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
    """Lock, check and price what somebody wants, and pack a parcel for each vendor.

    The products' rows are locked by id over all vendors together, so that no two orders can deadlock.

    :param items: no product twice
    :param buyer: who orders; nobody from the own store, or from another campus than the own
    :param fees: the platform's, as they stand
    :param is_delivery: whether each parcel is delivered (each vendor's delivery has its fee) or picked up
    :param single_vendor: whether all must be of one vendor
    :param now: the time of the request
    :return: parcels in the order in which their vendors come first, each with its lines in their order
    :raises ProductUnavailableError: a product does not exist or is not published
    :raises OwnStoreOrderError: a product is of the buyer's own store
    :raises StoreClosedError: a store accepts no orders at the moment
    :raises OtherCampusError: a product is of another campus
    :raises SeveralVendorsError: ``single_vendor``, and the items are of several vendors
    :raises InsufficientStockError: there is less than wished for; each such item is named
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
            error, reason = ProductUnavailableError, "There is no such product to be had."
        elif stores[product.vendor_id].user_id == buyer.id:
            error, reason = OwnStoreOrderError, "Is of your own store."
        elif not stores[product.vendor_id].is_open(now):
            error, reason = StoreClosedError, "Its store takes no orders at the moment."
        else:
            campus_id = campus_id or product.campus_id
            if product.campus_id != campus_id:
                error = OtherCampusError
                reason = "Is of another campus: what is ordered together is of one, your own."
        if error:
            errors.append(error)
            faults.append(InvalidParam(f"items[{index}].productId", reason))
    if faults:
        raise errors[0](
            f"Not everything can be ordered. {faults[0].name}: {faults[0].reason}", invalid_params=faults
        )
    if single_vendor and len({products[item.product_id].vendor_id for item in items}) > 1:
        raise SeveralVendorsError.of(
            "items", "They are of several vendors; an order is of one, a checkout takes them together."
        )
    shortages = [
        InvalidParam(f"items[{index}].quantity", f"{products[item.product_id].available} are left.")
        for index, item in enumerate(items)
        if products[item.product_id].available < item.quantity
    ]
    if shortages:
        raise InsufficientStockError("There is less in stock than was ordered.", invalid_params=shortages)


def _price_line(product: stock.LockedProduct, quantity: int, fees: Fees, *, now: datetime) -> OrderLine:
    """Price a line: at the flash sale's price if one runs that has pieces for all of it."""
    commission = fees.commission_bps if product.commission_bps is None else product.commission_bps
    sale_price = product.sale_price(quantity=quantity, now=now)
    if sale_price is not None:
        return OrderLine(sale_price, quantity, commission, product.sale_id)
    return OrderLine(product.price_minor, quantity, commission)
