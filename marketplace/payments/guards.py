"""Guards of refunds: officers may not decide on their own orders, and refunds may not repeat a chargeback.

The bank returns a charged-back payment to the customer, so a refund would pay the customer twice.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError
from marketplace.ledger import accounts
from marketplace.payments import texts
from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON
from marketplace.vendors.models import VendorProfile

# A dispute with an unrecognized outcome counts as open. A lost dispute is posted in the ledger.
ChargebackState = Literal["open", "lost"]

# SQL conditions on disputes ``d`` of a charge ``c``. The constants are safe to interpolate: they contain no input.
CHARGEBACK_MATCHES_CHARGE = (
    "d.intent_id = c.intent_id AND coalesce(d.gateway_charge_id, c.gateway_charge_id) = c.gateway_charge_id"
)
CHARGEBACK_NOT_WON = f"(d.status = 'open' OR d.resolution IS DISTINCT FROM '{DISPUTE_WON}')"
_STATE_EXPRESSION = (
    f"CASE WHEN d.status = 'resolved' AND d.resolution = '{DISPUTE_LOST}' THEN 'lost' ELSE 'open' END"
)
# Among several disputes, an open dispute takes precedence over a lost one.
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
    """Check that an officer is neither the buyer nor the owner of a store in the orders concerned.

    :param vendor_ids: stores that sold the goods
    :raises ConflictOfInterestError: the officer is the buyer or owns such a store
    """
    seller_ids = session.scalars(select(VendorProfile.user_id).where(VendorProfile.id.in_(vendor_ids)))
    if officer_id in {buyer_id, *seller_ids}:
        raise ConflictOfInterestError("You are a party to this order, so another officer must decide.")


_SELECT_STATE_OF_CHARGE = Statement(text(f"{_SELECT_STATE} AND c.id = :id"))


def find_chargeback_state(session: Session, *, charge_id: UUID | None) -> ChargebackState | None:
    """Find whether a charge has an open or lost chargeback.

    The caller must hold the charge's row lock, which recording a chargeback takes too.

    :return: none without a dispute, or if all disputes were won
    """
    state: ChargebackState | None = _SELECT_STATE_OF_CHARGE.scalar(session, id=charge_id)
    return state


# Only charges that paid this order count, not those of other orders in the checkout.
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
    """Refuse to refund an order whose payment has an open or lost chargeback.

    The caller must hold the order's row lock, which recording a chargeback takes too.

    :raises ChargedBackError: the bank disputes the payment or has returned it
    """
    _ensure_not_charged_back(
        _SELECT_STATE_OF_ORDER.scalar(session, id=order_id, escrow_id=accounts.ESCROW.id),
        refusal_if_lost=texts.CHARGEBACK_LOST,
    )


def ensure_no_open_chargeback(session: Session, *, order_id: UUID) -> ChargebackState | None:
    """Refuse to decide about an order whose payment has an open chargeback. A lost chargeback is settled instead.

    The caller must hold the order's row lock, which recording a chargeback takes too.

    :return: ``lost`` after a lost chargeback, otherwise none
    :raises ChargedBackError: the bank has not decided yet
    """
    state: ChargebackState | None = _SELECT_STATE_OF_ORDER.scalar(
        session, id=order_id, escrow_id=accounts.ESCROW.id
    )
    _ensure_not_charged_back(state, refusal_if_lost=None)
    return state


def ensure_charge_not_charged_back(
    session: Session, *, charge_id: UUID | None, to_wallet: bool
) -> ChargebackState | None:
    """Refuse to refund a charge that has an open or lost chargeback.

    The caller must hold the charge's row lock, which recording a chargeback takes too.

    :param to_wallet: whether the refund credits the wallet; allowed even after a lost chargeback, because the buyer's
        debt is offset against the wallet
    :return: ``lost`` if a lost chargeback permits the credit, otherwise none
    :raises ChargedBackError: the bank disputes the payment or has returned it
    """
    state = find_chargeback_state(session, charge_id=charge_id)
    _ensure_not_charged_back(
        state,
        refusal_if_lost=None if to_wallet else texts.CHARGEBACK_LOST_USE_WALLET,
    )
    return state


def _ensure_not_charged_back(state: ChargebackState | None, *, refusal_if_lost: str | None) -> None:
    """Refuse a refund of a charged-back payment.

    :param refusal_if_lost: error text for a lost chargeback; none allows a refund after a lost chargeback
    """
    if state == "open":
        raise ChargedBackError(texts.CHARGEBACK_OPEN)
    if state == "lost" and refusal_if_lost is not None:
        raise ChargedBackError(refusal_if_lost)
