"""Holds of a part of a store's balance: a vendor's share of a ruling is paid out after the appeal period."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.payouts.models import PayoutShareHold


def hold_share(
    session: Session, *, order_id: UUID, vendor_id: UUID, amount_minor: int, until: datetime, now: datetime
) -> None:
    """Hold the vendor's share of an order until a time.

    Call this in the transaction of the release, which locks the store's balance.

    :param amount_minor: kobo that were released to the vendor
    """
    session.add(
        PayoutShareHold(
            order_id=order_id, vendor_id=vendor_id, amount_minor=amount_minor, until=until, created_at=now
        )
    )
    session.flush()


def keep_hold_during_appeal(session: Session, *, order_id: UUID) -> None:
    """Keep the hold of an order's share, if any, until ``end_hold``."""
    session.execute(update(PayoutShareHold).where(PayoutShareHold.order_id == order_id).values(until=None))


def end_hold(session: Session, *, order_id: UUID, now: datetime) -> None:
    """End the hold of an order's share, if any."""
    session.execute(update(PayoutShareHold).where(PayoutShareHold.order_id == order_id).values(until=now))


_SUM_HELD = Statement(
    text(
        """
        SELECT vendor_id, sum(amount_minor)::bigint AS minor FROM payout_share_holds
        WHERE vendor_id = ANY(:vendor_ids) AND (until IS NULL OR until > :now) GROUP BY vendor_id
        """
    )
)


def sum_held_shares(session: Session, *, vendor_ids: Collection[UUID], now: datetime) -> dict[UUID, int]:
    """Sum the held shares in kobo by store id.

    To reserve a payout, lock the store's balance first: a concurrent release adds balance and hold together.
    """
    return dict(_SUM_HELD.tuples(session, vendor_ids=list(vendor_ids), now=now)) if vendor_ids else {}
