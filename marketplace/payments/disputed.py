"""Payments that the customer's bank gives back, or has given back: a refund of them would be the second one."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError
from marketplace.providers.gateway_events import IN_OUR_FAVOUR

# One that is open counts before one that was lost.
_FOUND = """
    SELECT d.status FROM charge_disputes d
    WHERE d.intent_id IN ({intents}) AND (d.status = 'open' OR d.resolution IS DISTINCT FROM :in_our_favour)
    ORDER BY d.status LIMIT 1
"""
# Of all attempts at an order, those that paid it.
_OF_ORDER = Statement(
    text(
        _FOUND.format(
            intents="""SELECT a.intent_id FROM payment_allocations a JOIN gateway_charges c ON c.intent_id = a.intent_id
                WHERE a.order_id = :id AND c.outcome = 'applied'"""
        )
    )
)
_OF_CHARGE = Statement(
    text(_FOUND.format(intents="SELECT c.intent_id FROM gateway_charges c WHERE c.id = :id"))
)
_OF_INTENT = Statement(text(_FOUND.format(intents="CAST(:id AS uuid)")))


class DisputedAtBankError(ConflictError):
    """The customer's bank gives the money back, or has done so."""


def refuse_disputed_order(session: Session, *, order_id: UUID) -> None:
    """This function will refuse to give money of an order back whose payment the buyer's bank disputes, or took back.

    :param order_id: of an order that is locked in this transaction, as a dispute locks it
    :raises DisputedAtBankError: it would be paid back twice
    """
    _refuse(_OF_ORDER.first(session, id=order_id, in_our_favour=IN_OUR_FAVOUR))


def refuse_disputed_charge(session: Session, *, charge_id: UUID) -> None:
    """This function will refuse likewise for a charge, which is locked in this transaction.

    :raises DisputedAtBankError: it would be paid back twice
    """
    _refuse(_OF_CHARGE.first(session, id=charge_id, in_our_favour=IN_OUR_FAVOUR))


def refuse_disputed_intent(session: Session, *, intent_id: UUID) -> None:
    """This function will refuse likewise for a payment whose orders are locked in this transaction.

    :raises DisputedAtBankError: it would be paid back twice
    """
    _refuse(_OF_INTENT.first(session, id=intent_id, in_our_favour=IN_OUR_FAVOUR))


def _refuse(found: dict[str, str] | None) -> None:
    if found is None:
        return
    if found["status"] == "open":
        raise DisputedAtBankError(
            "The buyer's bank disputes the payment, and gives it back if the dispute is lost: giving it back here too"
            " would be the second time. Answer the dispute at the gateway, and try again when it is won."
        )
    raise DisputedAtBankError(
        "The dispute of the payment was lost: the buyer's bank gave the money back, so there is none to give back."
    )
