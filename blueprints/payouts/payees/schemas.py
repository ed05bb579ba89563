"""Payouts as their payees and finance see them, and what payees ask for."""

from marshmallow import fields

from blueprints.http.date_range import PeriodQuery
from blueprints.http.envelope import OffsetMetaSchema
from blueprints.http.fields import Choice, Minor, Moment, Schema, Uuid, Whole
from blueprints.http.paging import OffsetQuery
from blueprints.payouts.stores.schemas import HoldView
from marketplace.payouts import states
from marketplace.payouts.payees import payout_history, vendor_debt


class StoreQuery(Schema):
    """Which store is asked about: staff name one, a vendor's own is meant otherwise."""

    vendor_id = Uuid(load_default=None)


class CashOutQuery(PeriodQuery, OffsetQuery):
    """Which payouts out of the caller's wallet are listed; ``to`` is exclusive."""

    sort = Choice(*payout_history.SORTS, load_default="createdAt")
    status = Choice(*sorted(states.INTENT.states), load_default=None)


class PayoutQuery(CashOutQuery):
    """Which payouts are listed; ``to`` is exclusive."""

    source = Choice(*payout_history.SOURCES, load_default=None)
    vendor_id = Uuid(load_default=None)
    batch_id = Uuid(load_default=None)


class AskForPayout(Schema):
    """How much is to be paid out."""

    amount_minor = Minor(low=1, required=True)


class PayeeView(Schema):
    """Who is paid."""

    id = Uuid(required=True)
    name = fields.String(required=True, allow_none=True)


class PayoutVendor(Schema):
    """The store that somebody is paid for."""

    id = Uuid(required=True)
    display_name = fields.String(required=True)


class PayoutAccountView(Schema):
    """Where a payout goes, or went; of the account's number the last four digits alone are shown."""

    bank_code = fields.String(required=True)
    bank_name = fields.String(required=True, allow_none=True)
    account_number = fields.String(required=True)
    account_name = fields.String(required=True)


class PayoutView(Schema):
    """A payout. ``reason`` tells why it failed or came back; ``settledAt`` is when it came to its end, whatever it is.

    ``reference`` names its transfer once there is one; ``batchId`` its batch, once it is in one.
    """

    id = Uuid(required=True)
    status = Choice(*sorted(states.INTENT.states), required=True)
    source = Choice(*payout_history.SOURCES, required=True)
    amount_minor = Minor(low=1, required=True)
    currency = fields.String(required=True)
    asked_for = fields.Boolean(required=True)
    reason = fields.String(required=True, allow_none=True)
    batch_id = Uuid(required=True, allow_none=True)
    reference = fields.String(required=True, allow_none=True)
    payee = fields.Nested(PayeeView, required=True)
    vendor = fields.Nested(PayoutVendor, required=True, allow_none=True)
    bank_account = fields.Nested(PayoutAccountView, required=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)
    sent_at = Moment(required=True, allow_none=True)
    settled_at = Moment(required=True, allow_none=True)


class BalanceView(Schema):
    """What a vendor has, in kobo.

    ``availableMinor`` can be withdrawn now; ``onHoldMinor`` is that money as long as ``holds`` hold it back, until
    ``heldUntil`` if time alone ends them. ``inEscrowMinor`` and ``frozenMinor`` are the vendor's share of running
    and of disputed orders. ``inTransitMinor`` is claimed for payouts: those that wait, and those that were sent.
    ``payableMinor`` is what the books owe the vendor, ``owedMinor`` what the vendor owes us, taken from it first.
    """

    vendor_id = Uuid(required=True)
    currency = fields.String(required=True)
    available_minor = Minor(required=True)
    on_hold_minor = Minor(required=True)
    holds = fields.List(fields.Nested(HoldView), required=True)
    held_until = Moment(required=True, allow_none=True)
    in_escrow_minor = Minor(required=True)
    orders_in_escrow = Whole(low=0, required=True)
    frozen_minor = Minor(required=True)
    orders_frozen = Whole(low=0, required=True)
    in_transit_minor = Minor(required=True)
    waiting_minor = Minor(required=True)
    sent_minor = Minor(required=True)
    payable_minor = Minor(required=True)
    owed_minor = Minor(required=True)
    minimum_payout_minor = Minor(required=True)


class WalletView(Schema):
    """What is in a wallet. ``cashableMinor`` can be paid out, unless ``holds`` hold it back.

    Rewards can't be paid out, and what is owed to us is taken first. ``inTransitMinor`` is on its way to the bank.
    """

    balance_minor = Minor(required=True)
    cashable_minor = Minor(required=True)
    from_rewards_minor = Minor(required=True)
    in_transit_minor = Minor(required=True)
    owed_minor = Minor(required=True)
    minimum_payout_minor = Minor(required=True)
    currency = fields.String(required=True)
    holds = fields.List(fields.Nested(HoldView), required=True)


class StatementQuery(PeriodQuery, StoreQuery):
    """Which period a statement is of; ``to`` is exclusive. By default it is the month that ``to`` is in."""

    format = Choice("json", "csv", "pdf", load_default=None)


class StatementEntry(Schema):
    """A movement, and the balance after it: of what is owed to the vendor, less what the vendor owes us."""

    at = Moment(required=True)
    kind = fields.String(required=True)
    description = fields.String(required=True)
    order_number = fields.String(required=True, allow_none=True)
    account = Choice("vendor_payable", "vendor_receivable", required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = Minor(low=1, required=True)
    balance_minor = fields.Integer(required=True)
    order_id = Uuid(required=True, allow_none=True)
    transaction_id = Uuid(required=True)


class StatementView(Schema):
    """A vendor's statement of a period, the earliest movement first; a balance below zero is owed to us."""

    vendor = fields.Nested(PayoutVendor, required=True)
    from_ = Moment(required=True, data_key="from")
    to = Moment(required=True)
    currency = fields.String(required=True)
    opening_balance_minor = fields.Integer(required=True)
    credited_minor = Minor(required=True)
    debited_minor = Minor(required=True)
    closing_balance_minor = fields.Integer(required=True)
    entries = fields.List(fields.Nested(StatementEntry), required=True)


class ReceivableQuery(OffsetQuery):
    """Which vendors are listed."""

    sort = Choice(*vendor_debt.SORTS, load_default="owedMinor")
    vendor_id = Uuid(load_default=None)


class Receivable(Schema):
    """What a vendor owes us: what was claimed in all, less what was collected from their payouts."""

    vendor_id = Uuid(required=True)
    vendor_name = fields.String(required=True)
    owed_minor = Minor(low=1, required=True)
    payable_minor = Minor(
        required=True, metadata={"description": "What we owe them: what they owe is taken out of it first."}
    )
    claimed_minor = Minor(required=True)
    collected_minor = Minor(required=True)
    last_claimed_at = Moment(required=True)


class ReceivablesMeta(OffsetMetaSchema):
    """The page, and what is owed in all by those who are listed."""

    owed_minor = Minor(required=True, data_key="owedMinor")
