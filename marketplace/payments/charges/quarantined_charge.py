"""A charge that is held back, with what it was for, and the share of it that each order has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from marketplace.kernel.money import split_by_weights
from marketplace.orders import states
from marketplace.orders.transitions import LockedOrder


def split_among_orders(minor: int, *, to_pay: Mapping[UUID, int]) -> dict[UUID, int]:
    """Split what is held back over the orders that it was for, by the largest remainder.

    So each order can tell of its own part, wherever that goes.

    :param minor: kobo
    :param to_pay: what the payment was to pay of each order, in kobo; not of all of them nothing
    :return: kobo of each order that has a share, by the order's id
    """
    order_ids = sorted(to_pay)
    parts = split_by_weights(minor, [to_pay[order_id] for order_id in order_ids])
    return {order_id: part for order_id, part in zip(order_ids, parts, strict=True) if part}


@dataclass(frozen=True)
class LockedQuarantinedCharge:
    """A charge that is held back, all that it concerns being locked.

    ``minor`` is what the books hold of it, ``to_pay`` what it was to pay of each order.
    """

    id: UUID
    charge_id: UUID
    channel: str
    intent: dict[str, Any]
    orders: Sequence[LockedOrder]
    to_pay: Mapping[UUID, int]
    minor: int

    @property
    def waiting(self) -> list[LockedOrder]:
        """Give the orders that wait to be paid."""
        return [order for order in self.orders if order.status == states.PENDING_PAYMENT]

    @property
    def order_id(self) -> UUID | None:
        """Give the one order that it was for, if it was for one."""
        return self.orders[0].id if len(self.orders) == 1 else None

    @property
    def cause(self) -> str:
        """Give what names the decision on it."""
        return f"quarantine:{self.id}"

    def excess(self) -> dict[UUID, int]:
        """Give what is more than the orders cost that wait, by order.

        It is of those that do not wait any more, or of all of them.
        """
        waiting = self.waiting
        excess = self.minor - sum(order.due_minor for order in waiting)
        if excess <= 0:
            return {}
        pays = {order.id for order in waiting}
        over = {order_id: minor for order_id, minor in self.to_pay.items() if order_id not in pays}
        return split_among_orders(excess, to_pay=over if any(over.values()) else self.to_pay)
