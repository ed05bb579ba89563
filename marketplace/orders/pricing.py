"""Prices, escrow splits and allocations: pure arithmetic on kobo."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from marketplace.kernel.money import share_in_basis_points, split_by_weights


@dataclass(frozen=True, slots=True)
class Fees:
    """The platform's fees: default commission in basis points, and fees of an order in kobo."""

    commission_bps: int
    service_fee_minor: int
    delivery_fee_minor: int


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A priced line of an order, with the commission rate and the flash sale at the time of placing."""

    unit_price_minor: int
    quantity: int
    commission_bps: int
    flash_sale_id: UUID | None = None

    @property
    def total_minor(self) -> int:
        """The unit price times the quantity, in kobo."""
        return self.unit_price_minor * self.quantity

    @property
    def commission_minor(self) -> int:
        """The platform's commission on the line in kobo, rounded down."""
        return share_in_basis_points(self.total_minor, self.commission_bps)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an order in kobo: total = subtotal + delivery fee + service fee - discount."""

    subtotal_minor: int
    delivery_fee_minor: int
    service_fee_minor: int
    discount_minor: int

    @property
    def total_minor(self) -> int:
        """The amount that the buyer pays, in kobo."""
        return self.subtotal_minor + self.delivery_fee_minor + self.service_fee_minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class EscrowSplit:
    """The shares of vendor and platform in an order's escrow, in kobo."""

    vendor_minor: int
    platform_minor: int

    def scaled_to(self, remaining_minor: int) -> "EscrowSplit":
        """Split the remaining escrow in the same proportion, exact to the kobo.

        After a partial refund, vendor and platform bear proportional shares (largest remainder method).

        :param remaining_minor: kobo; at most the order's total
        """
        if remaining_minor == self.vendor_minor + self.platform_minor:
            return self
        return EscrowSplit(*split_by_weights(remaining_minor, (self.vendor_minor, self.platform_minor)))


def price_order(lines: Sequence[OrderLine], *, fees: Fees, is_delivery: bool) -> Price:
    """Price an order.

    :param lines: at least one line
    :param fees: the platform's fees at the time of placing
    :param is_delivery: delivery has a delivery fee, pickup has none
    """
    return Price(
        subtotal_minor=sum(line.total_minor for line in lines),
        delivery_fee_minor=fees.delivery_fee_minor if is_delivery else 0,
        service_fee_minor=fees.service_fee_minor,
        discount_minor=0,
    )


def split_escrow(price: Price, *, commission_minor: int) -> EscrowSplit:
    """Split an order's escrow: the vendor gets the items less commission, and the delivery fee.

    :param commission_minor: the sum of the lines' commissions, in kobo
    """
    vendor = price.subtotal_minor - commission_minor + price.delivery_fee_minor
    return EscrowSplit(vendor_minor=vendor, platform_minor=price.total_minor - vendor)


def allocate_in_order(amount_minor: int, capacities_minor: Sequence[int]) -> list[int]:
    """Allocate an amount to capacities in order: each capacity is filled before the next gets a part.

    :param amount_minor: kobo; not negative, at most the sum of the capacities
    :param capacities_minor: kobo; none negative
    :return: kobo for each capacity, in the same order; the sum is the amount
    :raises ValueError: the amount or a capacity is negative, or the amount exceeds the capacities
    """
    if amount_minor < 0 or amount_minor > sum(capacities_minor) or min(capacities_minor, default=0) < 0:
        raise ValueError("the amount must be between 0 and the sum of the capacities")
    allocated = []
    left_minor = amount_minor
    for capacity in capacities_minor:
        allocated.append(min(left_minor, capacity))
        left_minor -= allocated[-1]
    return allocated


def allocate_after(
    amount_minor: int, capacities_minor: Sequence[int], *, allocated_before_minor: int
) -> list[int]:
    """Allocate an amount to capacities that an earlier amount has partly filled, as in ``allocate_in_order``.

    :param amount_minor: kobo, not negative
    :param capacities_minor: kobo; the full capacities
    :param allocated_before_minor: kobo that were allocated before
    :return: kobo of the amount for each capacity
    :raises ValueError: the amount exceeds the remaining capacities
    """
    before = allocate_in_order(allocated_before_minor, capacities_minor)
    after = allocate_in_order(allocated_before_minor + amount_minor, capacities_minor)
    return [last - first for first, last in zip(before, after, strict=True)]
