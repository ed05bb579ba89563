"""What an order costs and who gets what of it: pure arithmetic on kobo."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from marketplace.kernel.money import share_in_basis_points, split_by_weights


@dataclass(frozen=True, slots=True)
class Fees:
    """The platform's fees: the default commission in basis points, and amounts in kobo on an order."""

    commission_bps: int
    service_fee_minor: int
    delivery_fee_minor: int


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A priced line; ``commission_bps`` is frozen with it, as is the flash sale that its price is of, if any."""

    unit_price_minor: int
    quantity: int
    commission_bps: int
    flash_sale_id: UUID | None = None

    @property
    def total_minor(self) -> int:
        """Give unit price times quantity."""
        return self.unit_price_minor * self.quantity

    @property
    def commission_minor(self) -> int:
        """Give the platform's commission on the line, rounded down."""
        return share_in_basis_points(self.total_minor, self.commission_bps)


@dataclass(frozen=True, slots=True)
class Price:
    """What an order costs, in kobo: total = subtotal + delivery fee + service fee - discount."""

    subtotal_minor: int
    delivery_fee_minor: int
    service_fee_minor: int
    discount_minor: int

    @property
    def total_minor(self) -> int:
        """Give what the buyer pays."""
        return self.subtotal_minor + self.delivery_fee_minor + self.service_fee_minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class EscrowSplit:
    """Who gets what when escrow is released, in kobo; together it is the order's total."""

    vendor_minor: int
    platform_minor: int

    def scaled_to(self, remaining_minor: int) -> "EscrowSplit":
        """Split what is left in escrow in the same proportion, to the kobo.

        Where a part was refunded, each side bears its share of that (largest remainder).

        :param remaining_minor: kobo; all of the order's total, or less
        """
        if remaining_minor == self.vendor_minor + self.platform_minor:
            return self
        return EscrowSplit(*split_by_weights(remaining_minor, (self.vendor_minor, self.platform_minor)))


def price_order(lines: Sequence[OrderLine], *, fees: Fees, is_delivery: bool) -> Price:
    """Price an order.

    :param lines: at least one
    :param fees: the platform's, as they stand when the order is placed
    :param is_delivery: whether it is delivered (delivery fee) or picked up (none)
    """
    return Price(
        subtotal_minor=sum(line.total_minor for line in lines),
        delivery_fee_minor=fees.delivery_fee_minor if is_delivery else 0,
        service_fee_minor=fees.service_fee_minor,
        discount_minor=0,
    )


def split_escrow(price: Price, *, commission_minor: int) -> EscrowSplit:
    """Split what escrow holds: items less commission and the delivery fee are the vendor's.

    :param price: the order's
    :param commission_minor: the sum of its lines' commissions, in kobo
    """
    vendor = price.subtotal_minor - commission_minor + price.delivery_fee_minor
    return EscrowSplit(vendor_minor=vendor, platform_minor=price.total_minor - vendor)


def allocate_in_order(amount_minor: int, capacities_minor: Sequence[int]) -> list[int]:
    """Pour an amount into orders, the earlier one being filled before the next gets anything.

    :param amount_minor: kobo, not negative, at most what all of them take
    :param capacities_minor: what each takes, in kobo, none negative
    :return: kobo for each, in their order; together the amount
    :raises ValueError: a negative amount or capacity, or an amount that they can't take
    """
    if amount_minor < 0 or amount_minor > sum(capacities_minor) or min(capacities_minor, default=0) < 0:
        raise ValueError("what is poured is at least 0, and at most what there is room for")
    allocated = []
    left_minor = amount_minor
    for capacity in capacities_minor:
        allocated.append(min(left_minor, capacity))
        left_minor -= allocated[-1]
    return allocated


def allocate_after(
    amount_minor: int, capacities_minor: Sequence[int], *, allocated_before_minor: int
) -> list[int]:
    """Pour an amount into what holds some already, filled as ``allocate_in_order`` does.

    :param amount_minor: kobo, not negative
    :param capacities_minor: what each takes in all, in kobo
    :param allocated_before_minor: kobo that were poured in before
    :return: kobo that each gets of the amount
    :raises ValueError: there is no room for it
    """
    before = allocate_in_order(allocated_before_minor, capacities_minor)
    after = allocate_in_order(allocated_before_minor + amount_minor, capacities_minor)
    return [last - first for first, last in zip(before, after, strict=True)]
