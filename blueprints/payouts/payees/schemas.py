"""Payouts as their payees and finance see them, and what payees ask for."""

from marshmallow import fields

from blueprints.http.envelope import OffsetMetaSchema
from blueprints.http.fields import Choice, DateRangeQuery, MinorAmount, Schema, StrictInteger, Timestamp, Uuid
from blueprints.http.paging import OffsetQuery
from blueprints.payouts.stores.schemas import PayoutHoldReasonView
from marketplace.payouts import states
from marketplace.payouts.payees import payout_history, vendor_debt


class VendorSelectionQuery(Schema):
    """Which store is asked about: staff name one, a vendor's own is meant otherwise."""

    vendor_id = Uuid(load_default=None)


class CashOutQuery(DateRangeQuery, OffsetQuery):
    """Which payouts out of the caller's wallet are listed; ``to`` is exclusive."""

    sort = Choice(*payout_history.SORTS, load_default="createdAt")
    status = Choice(*sorted(states.PAYOUT.states), load_default=None)


class PayoutQuery(CashOutQuery):
    """Which payouts are listed; ``to`` is exclusive."""

    source = Choice(*payout_history.SOURCES, load_default=None)
    vendor_id = Uuid(load_default=None)
    batch_id = Uuid(load_default=None)


class RequestPayout(Schema):
    """How much is to be paid out."""

    amount_minor = MinorAmount(minimum=1, required=True)


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
    account_number = fields.String(required=True, attribute="masked_number")
    account_name = fields.String(required=True)


class PayoutView(Schema):
    """A payout. ``reason`` tells why it failed or came back; ``settledAt`` is when it came to its end, whatever it is.

    ``reference`` names its transfer once there is one; ``batchId`` its batch, once it is in one.
    """

    id = Uuid(required=True)
    status = Choice(*sorted(states.PAYOUT.states), required=True)
    source = Choice(*payout_history.SOURCES, required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    currency = fields.String(required=True)
    asked_for = fields.Boolean(required=True)
    reason = fields.String(required=True, allow_none=True)
    batch_id = Uuid(required=True, allow_none=True)
    reference = fields.String(required=True, allow_none=True)
    payee = fields.Nested(PayeeView, required=True)
    vendor = fields.Nested(PayoutVendor, required=True, allow_none=True)
    bank_account = fields.Nested(PayoutAccountView, required=True)
    created_at = Timestamp(required=True)
    updated_at = Timestamp(required=True)
    sent_at = Timestamp(required=True, allow_none=True)
    settled_at = Timestamp(required=True, allow_none=True)


class VendorBalanceView(Schema):
    """What a vendor has, in kobo.

    ``availableMinor`` can be withdrawn now; ``onHoldMinor`` is that money as long as ``holds`` hold it back, until
    ``heldUntil`` if time alone ends them. ``inEscrowMinor`` and ``frozenMinor`` are the vendor's share of running
    and of disputed orders. ``inTransitMinor`` is claimed for payouts: those that wait, and those that were sent.
    ``payableMinor`` is what the books owe the vendor, ``owedMinor`` what the vendor owes us, taken from it first.
    """

    vendor_id = Uuid(required=True)
    currency = fields.String(required=True)
    available_minor = MinorAmount(required=True)
    on_hold_minor = MinorAmount(required=True)
    holds = fields.List(fields.Nested(PayoutHoldReasonView), required=True)
    held_until = Timestamp(required=True, allow_none=True)
    in_escrow_minor = MinorAmount(required=True, attribute="escrow.held_minor")
    orders_in_escrow = StrictInteger(minimum=0, required=True, attribute="escrow.held_order_count")
    frozen_minor = MinorAmount(required=True, attribute="escrow.frozen_minor")
    orders_frozen = StrictInteger(minimum=0, required=True, attribute="escrow.frozen_order_count")
    in_transit_minor = MinorAmount(required=True, attribute="in_transit.total_minor")
    waiting_minor = MinorAmount(required=True, attribute="in_transit.waiting_minor")
    sent_minor = MinorAmount(required=True, attribute="in_transit.sent_minor")
    payable_minor = MinorAmount(required=True)
    owed_minor = MinorAmount(required=True)
    minimum_payout_minor = MinorAmount(required=True)


class WalletView(Schema):
    """What is in a wallet. ``cashableMinor`` can be paid out, unless ``holds`` hold it back.

    Rewards can't be paid out, and what is owed to us is taken first. ``inTransitMinor`` is on its way to the bank.
    """

    balance_minor = MinorAmount(required=True)
    cashable_minor = MinorAmount(required=True)
    from_rewards_minor = MinorAmount(required=True)
    in_transit_minor = MinorAmount(required=True, attribute="in_transit.total_minor")
    owed_minor = MinorAmount(required=True)
    minimum_payout_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    holds = fields.List(fields.Nested(PayoutHoldReasonView), required=True)


class StatementQuery(DateRangeQuery, VendorSelectionQuery):
    """Which period a statement is of; ``to`` is exclusive. By default it is the month that ``to`` is in."""

    format = Choice("json", "csv", "pdf", load_default=None)


class StatementEntry(Schema):
    """A movement, and the balance after it: of what is owed to the vendor, less what the vendor owes us."""

    at = Timestamp(required=True)
    kind = fields.String(required=True)
    description = fields.String(required=True)
    order_number = fields.String(required=True, allow_none=True)
    account = Choice("vendor_payable", "vendor_receivable", required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    balance_minor = fields.Integer(required=True)
    order_id = Uuid(required=True, allow_none=True)
    transaction_id = Uuid(required=True)


class StatementView(Schema):
    """A vendor's statement of a period, the earliest movement first; a balance below zero is owed to us."""

    vendor = fields.Nested(PayoutVendor, required=True)
    from_ = Timestamp(required=True, data_key="from", attribute="period.starts")
    to = Timestamp(required=True, attribute="period.ends")
    currency = fields.String(required=True)
    opening_balance_minor = fields.Integer(required=True)
    credited_minor = MinorAmount(required=True)
    debited_minor = MinorAmount(required=True)
    closing_balance_minor = fields.Integer(required=True)
    entries = fields.List(fields.Nested(StatementEntry), required=True)


class VendorDebtQuery(OffsetQuery):
    """Which vendors are listed."""

    sort = Choice(*vendor_debt.SORTS, load_default="owedMinor")
    vendor_id = Uuid(load_default=None)


class VendorDebtView(Schema):
    """What a vendor owes us: what was claimed in all, less what was collected from their payouts."""

    vendor_id = Uuid(required=True)
    vendor_name = fields.String(required=True)
    owed_minor = MinorAmount(minimum=1, required=True)
    payable_minor = MinorAmount(
        required=True, metadata={"description": "What we owe them: what they owe is taken out of it first."}
    )
    claimed_minor = MinorAmount(required=True)
    collected_minor = MinorAmount(required=True)
    last_claimed_at = Timestamp(required=True)


class VendorDebtsMeta(OffsetMetaSchema):
    """The page, and what is owed in all by those who are listed."""

    owed_minor = MinorAmount(required=True, data_key="owedMinor")
