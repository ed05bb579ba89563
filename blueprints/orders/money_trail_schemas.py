"""Schemas of money trails: where the money of an order is, and how it got there."""

from marshmallow import fields

from blueprints.http.field_docs import PAID_AT, doc
from blueprints.http.fields import Choice, MinorAmount, Schema, Timestamp, Uuid
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.orders import states
from marketplace.payments.money_trail.build import HOLDERS

_STATUSES = sorted(states.ORDER.states)
_ESCROW_STATUSES = sorted(states.ESCROW.states)


class MoneyHolderView(Schema):
    """A holder of a part of the order's money, with the reason, the next step and the deadline.

    `transactionId` is the ledger transaction that moved the money there. The field is null for unpaid amounts and
    for money in another currency. For the latter, `amountMinor` is 0 and `why` states the amount.
    """

    holder = Choice(*HOLDERS, required=True, metadata=doc("Holder of the money.", "vendor"))
    is_you = fields.Boolean(required=True, metadata=doc("Whether the caller is the holder.", False))
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 679_250))
    why = fields.String(
        required=True,
        metadata=doc("Reason, in a sentence.", "The buyer confirmed the delivery with the PIN."),
    )
    next = fields.String(
        required=True,
        metadata=doc(
            "Next step, in a sentence.", "The next payout sends the money to the vendor's bank account."
        ),
    )
    by = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Deadline of the next step; null without a deadline.", None),
    )
    transaction_id = Uuid(required=True, allow_none=True)


class MoneyMovementView(Schema):
    """A movement of the order's money, with the ledger transaction and a description.

    Money in another currency is not in the ledger: `transactionId` is null and `amountMinor` is 0.
    """

    transaction_id = Uuid(required=True, allow_none=True)
    kind = Choice(
        *TRANSACTION_KINDS, required=True, metadata=doc("Kind of the ledger transaction.", "payment")
    )
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 775_000))
    at = Timestamp(required=True, metadata=doc("Time of the movement.", PAID_AT))
    from_ = Choice(*HOLDERS, required=True, data_key="from", metadata=doc("Holder before.", "buyer"))
    to = Choice(*HOLDERS, required=True, metadata=doc("Holder after.", "escrow"))
    what = fields.String(required=True, metadata=doc("Description in a sentence.", "The buyer paid by card."))


class MoneyTrailView(Schema):
    """The money trail of an order: current holders, and movements with the earliest first."""

    order_id = Uuid(required=True, attribute="order.id")
    number = fields.String(required=True, attribute="order.number")
    status = Choice(
        *_STATUSES, required=True, attribute="order.status", metadata=doc("Status of the order.", "delivered")
    )
    escrow_status = Choice(*_ESCROW_STATUSES, required=True, attribute="order.escrow_status")
    total_amount = MinorAmount(required=True, attribute="order.total_minor", data_key="total_amount")
    currency = fields.String(required=True)
    holders = fields.List(
        fields.Nested(MoneyHolderView), required=True, metadata=doc("Present holders of the money.")
    )
    entries = fields.List(
        fields.Nested(MoneyMovementView), required=True, metadata=doc("Movements, earliest first.")
    )
