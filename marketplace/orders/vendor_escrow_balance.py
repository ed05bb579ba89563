"""The escrow balance of a vendor: the vendor's share of all orders in escrow."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.orders.pricing import EscrowSplit


@dataclass(frozen=True, slots=True)
class VendorEscrowBalance:
    """A vendor's share of the escrow in kobo: held for running orders, frozen for disputed orders."""

    held_minor: int = 0
    frozen_minor: int = 0
    held_order_count: int = 0
    frozen_order_count: int = 0

    @property
    def total_minor(self) -> int:
        """The held and frozen shares together, in kobo."""
        return self.held_minor + self.frozen_minor


# Orders without refunds are summed. Each partly refunded order is split separately, as at the release.
# The commission is rounded down for each line, as in pricing.OrderLine.commission_minor.
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
    """Fetch the vendor's share of all orders in escrow, as if released now.

    :param vendor_id: the store's id
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
