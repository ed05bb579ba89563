"""What a vendor has in escrow: what they would get of their open orders, were all of it released."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.orders.pricing import EscrowSplit


@dataclass(frozen=True, slots=True)
class VendorEscrowBalance:
    """A vendor's share of what escrow holds for their orders, in kobo: of running orders, and of disputed ones."""

    held_minor: int = 0
    frozen_minor: int = 0
    held_order_count: int = 0
    frozen_order_count: int = 0

    @property
    def total_minor(self) -> int:
        """Give both together."""
        return self.held_minor + self.frozen_minor


# Orders of which nothing was refunded are summed up; of the others each is split by itself, as its release would be.
# The commission is rounded down for each line, as in pricing.Line.commission_minor.
_SUM_VENDOR_SHARES = Statement(
    text(
        """
        SELECT s.status, sum(s.amount_minor - s.released_minor - s.refunded_minor)::bigint AS held_minor,
            sum(o.subtotal_minor - fee.commission_minor + o.delivery_fee_minor)::bigint AS vendor_minor,
            sum(o.total_minor)::bigint AS total_minor, count(*) AS orders
        FROM orders o JOIN escrows s ON s.order_id = o.id
        CROSS JOIN LATERAL (SELECT coalesce(sum(i.line_total_minor * i.commission_bps / 10000), 0)::bigint
            AS commission_minor FROM order_items i WHERE i.order_id = o.id) fee
        WHERE o.vendor_id = :vendor_id AND o.status IN ('paid_escrow', 'processing', 'shipped', 'disputed')
            AND s.status IN ('held', 'frozen')
        GROUP BY s.status, CASE WHEN s.released_minor + s.refunded_minor > 0 THEN o.id END
        """
    )
)


def fetch_vendor_escrow_balance(session: Session, *, vendor_id: UUID) -> VendorEscrowBalance:
    """Tell what a vendor would get of what escrow holds for their orders.

    :param vendor_id: the store's
    """
    shares, orders = {"held": 0, "frozen": 0}, {"held": 0, "frozen": 0}
    for status, held, vendor, total, count in _SUM_VENDOR_SHARES.tuples(session, vendor_id=vendor_id):
        shares[status] += EscrowSplit(vendor, platform_minor=total - vendor).scaled_to(held).vendor_minor
        orders[status] += count
    return VendorEscrowBalance(
        held_minor=shares["held"],
        frozen_minor=shares["frozen"],
        held_order_count=orders["held"],
        frozen_order_count=orders["frozen"],
    )
