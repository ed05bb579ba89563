"""Payments that the customer's bank gives back, or has given back: a refund of them would be the second one."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError
from marketplace.ledger import accounts
from marketplace.providers.gateway.payloads import IN_OUR_FAVOUR, LOST

# An open dispute may still be lost; a lost one has been booked. One that ended as nobody can tell is as good as open.
Standing = Literal["open", "lost"]

# Which disputes are of a charge, and how they stand. The words are the gateway's own, and ours alone: no parameters.
OF_CHARGE = (
    "d.intent_id = c.intent_id AND coalesce(d.gateway_charge_id, c.gateway_charge_id) = c.gateway_charge_id"
)
NOT_WON = f"(d.status = 'open' OR d.resolution IS DISTINCT FROM '{IN_OUR_FAVOUR}')"
_STANDING = f"CASE WHEN d.status = 'resolved' AND d.resolution = '{LOST}' THEN 'lost' ELSE 'open' END"
# Of several disputes, one that is open counts before one that was lost.
STANDING_OF_CHARGE = f"SELECT max({_STANDING}) FROM charge_disputes d WHERE {OF_CHARGE} AND {NOT_WON}"  # noqa: S608 - our own text
_FOUND = f"SELECT max({_STANDING}) AS standing FROM charge_disputes d JOIN gateway_charges c ON {OF_CHARGE} WHERE {NOT_WON}"  # noqa: S608, E501 - our own text
# Of all charges, those that paid the order, by the books: its checkout's may have paid others alone.
_OF_ORDER = Statement(
    text(
        f"""
        {_FOUND} AND c.outcome = 'applied' AND EXISTS (
            SELECT FROM ledger_entries e WHERE e.transaction_id = c.ledger_transaction_id
                AND e.order_id = :id AND e.account_id = :escrow_id AND e.direction = 'credit')
        """
    )
)
_OF_CHARGE = Statement(text(f"{_FOUND} AND c.id = :id"))
_WAITING = Statement(
    text(
        f"""
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
        WHERE r.id = ANY(:refund_ids) AND r.status = 'pending' AND ({STANDING_OF_CHARGE}) = 'open'
        """  # noqa: S608 - our own text
    )
)


class DisputedAtBankError(ConflictError):
    """The customer's bank gives the money back, or has done so."""


def standing_of_charge(session: Session, *, charge_id: UUID) -> Standing | None:
    """Tell whether the buyer's bank disputes a charge, or took it back.

    :param charge_id: of a charge that is locked in this transaction, as a dispute locks it
    :return: none where there is no dispute, or all were won
    """
    found: Standing | None = _OF_CHARGE.one(session, id=charge_id)["standing"]
    return found


def waiting_among(session: Session, *, refund_ids: Sequence[UUID]) -> set[UUID]:
    """Tell which refunds wait for the end of a dispute."""
    return {row["id"] for row in _WAITING.all(session, refund_ids=list(refund_ids))}


def refuse_disputed_order(session: Session, *, order_id: UUID) -> None:
    """Refuse to give money of an order back whose payment the buyer's bank disputes, or took back.

    :param order_id: of an order that is locked in this transaction, as a dispute locks it
    :raises DisputedAtBankError: it would be paid back twice
    """
    standing = _OF_ORDER.one(session, id=order_id, escrow_id=accounts.ESCROW.id)["standing"]
    _refuse_open(standing)
    if standing == "lost":
        raise DisputedAtBankError(
            "The dispute of the payment was lost: the buyer's bank gave the money back, so there is none to give back."
        )


def refuse_disputed_charge(session: Session, *, charge_id: UUID, into_wallet: bool) -> Standing | None:
    """Refuse likewise for a charge, which is locked in this transaction.

    :param into_wallet: whether the money goes there. What a bank took is booked, and owed by a buyer who has it twice:
        the wallet may have it then, out of which that is taken.
    :return: how a dispute of it stands that does not forbid it
    :raises DisputedAtBankError: it would be paid back twice
    """
    standing = standing_of_charge(session, charge_id=charge_id)
    _refuse_open(standing)
    if standing == "lost" and not into_wallet:
        raise DisputedAtBankError(
            "The dispute of the payment was lost: the buyer's bank gave the money back, so it is not sent or kept as"
            " well. Give it to the wallet: what the buyer owes for it is taken from there."
        )
    return standing


def _refuse_open(standing: Standing | None) -> None:
    if standing == "open":
        raise DisputedAtBankError(
            "The buyer's bank disputes the payment, and gives it back if the dispute is lost: giving it back here too"
            " would be the second time. Answer the dispute at the gateway, and try again when it is won."
        )
