"""Payouts, balances and stores as their payees and finance see them, and what payees ask for."""

from marshmallow import fields

from blueprints.http.envelope import OffsetMetaSchema
from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    DateRangeQuery,
    ExpectedRevision,
    Identified,
    MinorAmount,
    OffsetQuery,
    Schema,
    SingleLineText,
    StoreName,
    StrictInteger,
    Text,
    Timestamp,
    Updated,
    Uuid,
    sort_choice,
)
from marketplace.payouts import states
from marketplace.payouts.payees import balances, holds, payout_history

_MAX_POLICY_LENGTH = 2_000


class VendorSelectionQuery(Schema):
    """Which store is asked about: staff name one, a vendor's own is meant otherwise."""

    vendor_id = Uuid(load_default=None)


class CashOutQuery(DateRangeQuery, OffsetQuery):
    """Which payouts out of the caller's wallet are listed; ``to`` is exclusive."""

    sort = sort_choice(payout_history.SORTS, default="created_at")
    status = Choice(*sorted(states.PAYOUT.states), load_default=None)


class PayoutQuery(CashOutQuery, VendorSelectionQuery):
    """Which payouts are listed; ``to`` is exclusive."""

    source = Choice(*payout_history.SOURCES, load_default=None)
    batch_id = Uuid(load_default=None)


class RequestPayout(Schema):
    """How much is to be paid out."""

    amount_minor = MinorAmount(minimum=1, required=True)


class PayeeView(Identified):
    """Who is paid."""

    name = fields.String(required=True, allow_none=True)


class PayoutVendor(Identified):
    """The store that somebody is paid for."""

    display_name = fields.String(required=True)


class PayoutAccountView(Schema):
    """Where a payout goes, or went; of the account's number the last four digits alone are shown."""

    bank_code = fields.String(required=True)
    bank_name = fields.String(required=True, allow_none=True)
    account_number = fields.String(required=True, attribute="masked_number")
    account_name = fields.String(required=True)


class PayoutView(Updated):
    """A payout. ``reason`` tells why it failed or came back; ``settledAt`` is when it came to its end, whatever it is.

    ``reference`` names its transfer once there is one; ``batchId`` its batch, once it is in one.
    """

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
    sent_at = Timestamp(required=True, allow_none=True)
    settled_at = Timestamp(required=True, allow_none=True)


class PayoutHoldReasonView(Schema):
    """What holds payouts back, and until when if time ends it."""

    reason = Choice(*holds.ALL_HOLD_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)
    detail = fields.String(required=True)


class PayeeBalanceView(Schema):
    """What a payee has, in kobo; ``inTransitMinor`` is on its way to the bank."""

    currency = fields.String(required=True)
    in_transit_minor = MinorAmount(required=True, attribute="in_transit.total_minor")
    owed_minor = MinorAmount(required=True)
    minimum_payout_minor = MinorAmount(required=True)
    holds = fields.List(fields.Nested(PayoutHoldReasonView), required=True)


class VendorBalanceView(PayeeBalanceView):
    """What a vendor has, in kobo.

    ``availableMinor`` can be withdrawn now; ``onHoldMinor`` is that money as long as ``holds`` hold it back, until
    ``heldUntil`` if time alone ends them. ``inEscrowMinor`` and ``frozenMinor`` are the vendor's share of running
    and of disputed orders. ``inTransitMinor`` is claimed for payouts: those that wait, and those that were sent.
    ``payableMinor`` is what the books owe the vendor, ``owedMinor`` what the vendor owes us, taken from it first.
    """

    vendor_id = Uuid(required=True)
    available_minor = MinorAmount(required=True)
    on_hold_minor = MinorAmount(required=True)
    held_until = Timestamp(required=True, allow_none=True)
    in_escrow_minor = MinorAmount(required=True, attribute="escrow.held_minor")
    orders_in_escrow = StrictInteger(minimum=0, required=True, attribute="escrow.held_order_count")
    frozen_minor = MinorAmount(required=True, attribute="escrow.frozen_minor")
    orders_frozen = StrictInteger(minimum=0, required=True, attribute="escrow.frozen_order_count")
    waiting_minor = MinorAmount(required=True, attribute="in_transit.waiting_minor")
    sent_minor = MinorAmount(required=True, attribute="in_transit.sent_minor")
    payable_minor = MinorAmount(required=True)


class WalletView(PayeeBalanceView):
    """What is in a wallet. ``cashableMinor`` can be paid out, unless ``holds`` hold it back.

    Rewards can't be paid out, and what is owed to us is taken first. ``inTransitMinor`` is on its way to the bank.
    """

    balance_minor = MinorAmount(required=True)
    cashable_minor = MinorAmount(required=True)
    from_rewards_minor = MinorAmount(required=True)


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


class VendorDebtQuery(OffsetQuery, VendorSelectionQuery):
    """Which vendors are listed."""

    sort = sort_choice(balances.DEBT_SORTS, default="owed_minor")


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


class SetBankAccount(Schema):
    """A bank account that payouts are to go to."""

    bank_code = BankCode(required=True)
    account_number = AccountNumber(required=True)


class UpdateStorePolicies(Schema):
    """A store's terms; what is left out stays as it is, and null takes one away."""

    returns = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)
    delivery = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)
    warranty = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)


class SetStoreVacation(Schema):
    """That a store is away: until a time, or until it says otherwise."""

    until = Timestamp(allow_none=True, load_default=None)
    note = Text(max_length=300, allow_none=True, load_default=None)


class UpdateStoreProfile(ExpectedRevision):
    """Changes to a store; what is left out stays as it is."""

    display_name = SingleLineText(min_length=2, max_length=80)
    description = Text(min_length=0, max_length=5_000)
    policies = fields.Nested(UpdateStorePolicies)
    vacation_mode = fields.Nested(
        SetStoreVacation, allow_none=True, metadata={"description": "Null ends it."}
    )
    bank_account = fields.Nested(SetBankAccount)


class StorePoliciesView(Schema):
    """A store's terms, as far as it states any."""

    returns = fields.String(required=True, allow_none=True)
    delivery = fields.String(required=True, allow_none=True)
    warranty = fields.String(required=True, allow_none=True)


class StoreVacationView(Schema):
    """That a store is away, and until when if that is known."""

    until = Timestamp(required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)


class BankAccountView(Schema):
    """A bank account that payouts go to, or went to; of its number the last four digits alone are shown.

    ``heldUntil`` is until when nothing is sent there, since it is new.
    """

    id = Uuid(required=True, attribute="account.id")
    bank_code = fields.String(required=True, attribute="account.bank_code")
    bank_name = fields.String(required=True, allow_none=True, attribute="account.bank_name")
    account_number = fields.String(required=True, attribute="account.masked_number")
    account_name = fields.String(required=True, attribute="account.account_name")
    since = Timestamp(required=True, attribute="account.created_at")
    replaced_at = Timestamp(required=True, allow_none=True, attribute="account.replaced_at")
    held_until = Timestamp(required=True, allow_none=True)


class StoreProfileView(StoreName):
    """A store. Bank account and holds are shown to whoever runs it."""

    campus_id = Uuid(required=True)
    description = fields.String(required=True)
    policies = fields.Nested(StorePoliciesView, required=True)
    vacation_mode = fields.Nested(StoreVacationView, required=True, allow_none=True)
    rating = fields.Float(required=True, allow_none=True)
    rating_count = StrictInteger(minimum=0, required=True)
    completed_orders = StrictInteger(minimum=0, required=True)
    verified = fields.Boolean(required=True)
    status = Choice("active", "suspended", "closed", required=True)
    revision = StrictInteger(minimum=1, required=True)
    member_since = Timestamp(required=True)
    updated_at = Timestamp(required=True)
    bank_account = fields.Nested(BankAccountView, allow_none=True)
    payout_holds = fields.List(fields.Nested(PayoutHoldReasonView))
