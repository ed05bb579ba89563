"""Settlement of lost chargebacks by rulings: the ruling decides who bears the money that the bank took back.

The bank has returned the undecided amount to the buyer. That amount pays the buyer's part of the ruling first. The
platform bears the rest, which the ruling gives to the vendor.
"""

from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders.transitions import LockedOrder
from marketplace.payments import texts
from marketplace.payments.chargebacks.losses import sum_undecided_loss

CHARGEBACK_SETTLED: Final = "chargeback_settled"


def settle_undecided_loss(session: Session, *, order: LockedOrder, refund_minor: int, now: datetime) -> int:
    """Post the end of a locked order's undecided chargeback loss, if any.

    The caller updates the escrow record with the full refund, and refunds the rest.

    :param refund_minor: the buyer's part of the escrow in kobo
    :return: the part of the refund that the buyer's bank has already returned, in kobo
    """
    undecided_minor = sum_undecided_loss(session, order_id=order.id)
    if not undecided_minor:
        return 0
    returned_minor = min(undecided_minor, refund_minor)
    debits = (
        (accounts.ESCROW, returned_minor),
        (accounts.DISPUTE_EXPENSES, undecided_minor - returned_minor),
    )
    post_transaction(
        session,
        kind=CHARGEBACK_SETTLED,
        source=f"order:{order.id}",
        description=texts.LEDGER_CHARGEBACK_SETTLED.format(order_number=order.number),
        postings=[
            *(Posting(account, "debit", minor, order.id) for account, minor in debits if minor),
            Posting(accounts.LOST_DISPUTES, "credit", undecided_minor, order.id),
        ],
        now=now,
    )
    return returned_minor
