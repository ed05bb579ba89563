"""Where is my money: what became of an order's, for those whom it concerns."""

from uuid import UUID

from marshmallow import fields

from blueprints.http.contract import AUTHENTICATED, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.fields import Choice, MinorAmount, Schema, Timestamp, Uuid
from marketplace.orders import states
from marketplace.payments.money_trail.build import HOLDERS, MoneyTrail, build_money_trail

area = ContractBlueprint("order-money", "/api/orders", "Where an order's money is")


class MoneyHolderView(Schema):
    """Who holds a part of the money now, why, what happens next, and by when at the latest.

    ``transactionId`` is the ledger transaction that brought it there; none of what was never paid, and of money in
    another currency, whose ``amountMinor`` is 0: ``why`` names it.
    """

    holder = Choice(*HOLDERS, required=True)
    is_you = fields.Boolean(required=True)
    amount_minor = MinorAmount(required=True)
    why = fields.String(required=True)
    next = fields.String(required=True)
    by = Timestamp(required=True, allow_none=True)
    transaction_id = Uuid(required=True, allow_none=True)


class MoneyMovementView(Schema):
    """A movement of the money: the ledger's transaction, and what it was in plain words.

    Money in another currency is in no ledger: it has no ``transactionId``, and an ``amountMinor`` of 0.
    """

    transaction_id = Uuid(required=True, allow_none=True)
    kind = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True)
    from_ = Choice(*HOLDERS, required=True, data_key="from")
    to = Choice(*HOLDERS, required=True)
    what = fields.String(required=True)


class MoneyTrailView(Schema):
    """Where an order's money is, and how it came there, the earliest movement first."""

    order_id = Uuid(required=True)
    number = fields.String(required=True)
    status = Choice(*sorted(states.ORDER.states), required=True)
    escrow_status = Choice(*sorted(states.ESCROW.states), required=True)
    total_amount = MinorAmount(required=True, data_key="total_amount")
    currency = fields.String(required=True)
    holders = fields.List(fields.Nested(MoneyHolderView), required=True)
    entries = fields.List(fields.Nested(MoneyMovementView), required=True)


@area.get("/<uuid:order_id>/money", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=MoneyTrailView)
def show_money_trail(ctx: Context, order_id: UUID) -> MoneyTrail:
    """Tell an order's buyer, its vendor or staff who holds its money, and what happens next."""
    return build_money_trail(ctx.session, order_id=order_id, caller=ctx.user)
