"""Guards of decisions on money: no officer decides on their own orders, and no refund repeats a chargeback.

The customer's bank returns a charged-back payment, so a refund of that payment would be the second one.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError
from marketplace.ledger import accounts
from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON
from marketplace.vendors.models import VendorProfile

# An open dispute may still be lost; a lost one has been booked. One that ended as nobody can tell is as good as open.
ChargebackState = Literal["open", "lost"]

# Which disputes are of a charge, and how they stand. The words are the gateway's own, and ours alone: no parameters.
CHARGEBACK_MATCHES_CHARGE = (
    "d.intent_id = c.intent_id AND coalesce(d.gateway_charge_id, c.gateway_charge_id) = c.gateway_charge_id"
)
CHARGEBACK_NOT_WON = f"(d.status = 'open' OR d.resolution IS DISTINCT FROM '{DISPUTE_WON}')"
_STATE_EXPRESSION = (
    f"CASE WHEN d.status = 'resolved' AND d.resolution = '{DISPUTE_LOST}' THEN 'lost' ELSE 'open' END"
)
# Of several disputes, one that is open counts before one that was lost.
SELECT_CHARGEBACK_STATE = f"""
    SELECT max({_STATE_EXPRESSION}) FROM charge_disputes d WHERE {CHARGEBACK_MATCHES_CHARGE} AND {CHARGEBACK_NOT_WON}
"""
_SELECT_STATE = f"""
    SELECT max({_STATE_EXPRESSION})
    FROM charge_disputes d JOIN gateway_charges c ON {CHARGEBACK_MATCHES_CHARGE}
    WHERE {CHARGEBACK_NOT_WON}
"""


class ChargedBackError(ConflictError):
    """A refund would pay the buyer twice, because of a chargeback."""

    reason = "charged-back"


def ensure_no_conflict_of_interest(
    session: Session, *, officer_id: UUID, buyer_id: UUID, vendor_ids: Sequence[UUID]
) -> None:
    """Refuse an officer who would decide on money of their own.

    :param vendor_ids: the stores whose goods the money paid for
    :raises ConflictOfInterestError: the officer bought it, or sells it
    """
    seller_ids = session.scalars(select(VendorProfile.user_id).where(VendorProfile.id.in_(vendor_ids)))
    if officer_id in {buyer_id, *seller_ids}:
        raise ConflictOfInterestError("You are a party to this: another officer has to decide.")


_SELECT_STATE_OF_CHARGE = Statement(text(f"{_SELECT_STATE} AND c.id = :id"))


def find_chargeback_state(session: Session, *, charge_id: UUID | None) -> ChargebackState | None:
    """Tell whether the buyer's bank disputes a charge, or took it back.

    :param charge_id: of a charge that is locked in this transaction, as a dispute locks it
    :return: none where there is no dispute, or all were won
    """
    state: ChargebackState | None = _SELECT_STATE_OF_CHARGE.scalar(session, id=charge_id)
    return state


# Of all charges, those that paid the order, by the books: its checkout's may have paid others alone.
_SELECT_STATE_OF_ORDER = Statement(
    text(
        f"""
        {_SELECT_STATE} AND c.outcome = 'applied' AND EXISTS (
            SELECT FROM ledger_entries e WHERE e.transaction_id = c.ledger_transaction_id
                AND e.order_id = :id AND e.account_id = :escrow_id AND e.direction = 'credit')
        """
    )
)


def ensure_order_not_charged_back(session: Session, *, order_id: UUID) -> None:
    """Refuse to give money of an order back whose payment the buyer's bank disputes, or took back.

    :param order_id: of an order that is locked in this transaction, as a dispute locks it
    :raises ChargedBackError: it would be paid back twice
    """
    _ensure_not_charged_back(
        _SELECT_STATE_OF_ORDER.scalar(session, id=order_id, escrow_id=accounts.ESCROW.id),
        refusal_if_lost="there is none to give back.",
    )


def ensure_charge_not_charged_back(
    session: Session, *, charge_id: UUID | None, to_wallet: bool
) -> ChargebackState | None:
    """Refuse likewise for a charge, which is locked in this transaction.

    :param to_wallet: whether the money goes there. What a bank took is booked, and owed by a buyer who has it twice:
        the wallet may have it then, out of which that is taken.
    :return: how a dispute of it stands that does not forbid it
    :raises ChargedBackError: it would be paid back twice
    """
    state = find_chargeback_state(session, charge_id=charge_id)
    _ensure_not_charged_back(
        state,
        refusal_if_lost=None
        if to_wallet
        else "it is not sent or kept as well. Give it to the wallet: what the buyer owes for it is taken from there.",
    )
    return state


def _ensure_not_charged_back(state: ChargebackState | None, *, refusal_if_lost: str | None) -> None:
    """Refuse a refund of a charged-back payment.

    :param refusal_if_lost: ends the error of a lost dispute; none allows a refund then
    """
    if state == "open":
        raise ChargedBackError(
            "The buyer's bank disputes the payment, and gives it back if the dispute is lost: giving it back here too"
            " would be the second time. Answer the dispute at the gateway, and try again when it is won."
        )
    if state == "lost" and refusal_if_lost is not None:
        raise ChargedBackError(
            "The dispute of the payment was lost: the buyer's bank gave the money back, so " + refusal_if_lost
        )
