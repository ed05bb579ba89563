"""A charge that is held back, with what it was for, and the share of it that each order has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from marketplace.kernel.money import split_by_weights
from marketplace.orders import states
from marketplace.orders.transitions import LockedOrder
from marketplace.payments.charges.charge_context import LockedIntent
from marketplace.payments.models import GatewayCharge, QuarantinedCharge

QuarantineAction = Literal["accept_rest", "refund", "wallet"]


def split_among_orders(amount_minor: int, *, allocated_minor: Mapping[UUID, int]) -> dict[UUID, int]:
    """Split what is held back over the orders that it was for, by the largest remainder.

    So each order can tell of its own part, wherever that goes.

    :param amount_minor: kobo
    :param allocated_minor: what the payment was to pay of each order, in kobo; not of all of them nothing
    :return: kobo of each order that has a share, by the order's id
    """
    order_ids = sorted(allocated_minor)
    shares = split_by_weights(amount_minor, [allocated_minor[order_id] for order_id in order_ids])
    return {order_id: share for order_id, share in zip(order_ids, shares, strict=True) if share}


@dataclass(frozen=True)
class LockedQuarantinedCharge:
    """A charge that is held back, all that it concerns being locked.

    ``amount_minor`` is what the books hold of it, ``allocated_minor`` what it was to pay of each order.
    """

    row: QuarantinedCharge
    charge: GatewayCharge
    intent: LockedIntent
    orders: Sequence[LockedOrder]
    allocated_minor: Mapping[UUID, int]
    amount_minor: int

    @property
    def payable_orders(self) -> list[LockedOrder]:
        """Give the orders that wait to be paid."""
        return [order for order in self.orders if order.status == states.PENDING_PAYMENT]

    @property
    def single_order_id(self) -> UUID | None:
        """Give the one order that it was for, if it was for one."""
        return self.orders[0].id if len(self.orders) == 1 else None

    @property
    def cause(self) -> str:
        """Give what names the decision on it."""
        return f"quarantine:{self.row.id}"

    def excess_by_order(self) -> dict[UUID, int]:
        """Give what is more than the orders cost that wait, by order.

        It is of those that do not wait any more, or of all of them.
        """
        payable_orders = self.payable_orders
        excess_minor = self.amount_minor - sum(order.due_minor for order in payable_orders)
        if excess_minor <= 0:
            return {}
        payable_ids = {order.id for order in payable_orders}
        closed_allocated_minor = {
            order_id: amount_minor
            for order_id, amount_minor in self.allocated_minor.items()
            if order_id not in payable_ids
        }
        return split_among_orders(
            excess_minor,
            allocated_minor=closed_allocated_minor
            if any(closed_allocated_minor.values())
            else self.allocated_minor,
        )
