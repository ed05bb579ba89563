"""Schemas of payouts, balances, statements and store profiles: requests and responses."""

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
    """The store of the request: required for staff, and the vendor's own store by default."""

    vendor_id = Uuid(load_default=None)


class CashOutQuery(DateRangeQuery, OffsetQuery):
    """Filters of payouts from the caller's wallet; ``to`` is exclusive."""

    sort = sort_choice(payout_history.SORTS, default="created_at")
    status = Choice(*sorted(states.PAYOUT.states), load_default=None)


class PayoutQuery(CashOutQuery, VendorSelectionQuery):
    """Filters of payouts; ``to`` is exclusive."""

    source = Choice(*payout_history.SOURCES, load_default=None)
    batch_id = Uuid(load_default=None)


class RequestPayout(Schema):
    """The amount to pay out, in kobo."""

    amount_minor = MinorAmount(minimum=1, required=True)


class PayeeView(Identified):
    """The payee of a payout."""

    name = fields.String(required=True, allow_none=True)


class PayoutVendor(Identified):
    """The store that a payout is for."""

    display_name = fields.String(required=True)


class PayoutAccountView(Schema):
    """The bank account of a payout, with only the last four digits of the account number."""

    bank_code = fields.String(required=True)
    bank_name = fields.String(required=True, allow_none=True)
    account_number = fields.String(required=True, attribute="masked_number")
    account_name = fields.String(required=True)


class PayoutView(Updated):
    """A payout. ``reason`` explains a failure or reversal, and ``settledAt`` is the time of the final status.

    ``reference`` identifies the transfer after the dispatch. ``batchId`` is null until the payout joins a batch.
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
    """A hold: the reason that blocks payouts, and the end if known."""

    reason = Choice(*holds.ALL_HOLD_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)
    detail = fields.String(required=True)


class PayeeBalanceView(Schema):
    """A payee's balance in kobo; ``inTransitMinor`` is the sum of pending and sent payouts."""

    currency = fields.String(required=True)
    in_transit_minor = MinorAmount(required=True, attribute="in_transit.total_minor")
    owed_minor = MinorAmount(required=True)
    minimum_payout_minor = MinorAmount(required=True)
    holds = fields.List(fields.Nested(PayoutHoldReasonView), required=True)


class VendorBalanceView(PayeeBalanceView):
    """A vendor's balance in kobo.

    ``availableMinor`` can be withdrawn now. While ``holds`` block payouts, the same amount is ``onHoldMinor`` instead.
    ``heldUntil`` is the end of the holds if all have an end date. ``inEscrowMinor`` and ``frozenMinor`` are the
    vendor's shares of open and of disputed orders. ``inTransitMinor`` is the sum of pending and sent payouts.
    ``payableMinor`` is the ledger balance payable to the vendor. ``owedMinor`` is the vendor's debt, which is deducted
    first.
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
    """A wallet's balance in kobo. ``cashableMinor`` can be paid out, unless ``holds`` block payouts.

    Rewards cannot be paid out, and debts are deducted first. ``inTransitMinor`` is the sum of pending and sent payouts.
    """

    balance_minor = MinorAmount(required=True)
    cashable_minor = MinorAmount(required=True)
    from_rewards_minor = MinorAmount(required=True)


class StatementQuery(DateRangeQuery, VendorSelectionQuery):
    """The period of a statement; ``to`` is exclusive. The default is the UTC month of ``to``."""

    format = Choice("json", "csv", "pdf", load_default=None)


class StatementEntry(Schema):
    """A ledger entry and the resulting balance: the amount payable to the vendor minus the vendor's debt."""

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
    """A vendor's statement of a period, the earliest entry first. A negative balance is a debt of the vendor."""

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
    """Filters of vendors with debts."""

    sort = sort_choice(balances.DEBT_SORTS, default="owed_minor")


class VendorDebtView(Schema):
    """A vendor's debt: all claims minus the amounts collected from payouts."""

    vendor_id = Uuid(required=True)
    vendor_name = fields.String(required=True)
    owed_minor = MinorAmount(minimum=1, required=True)
    payable_minor = MinorAmount(
        required=True, metadata={"description": "Balance payable to the vendor. The debt is deducted first."}
    )
    claimed_minor = MinorAmount(required=True)
    collected_minor = MinorAmount(required=True)
    last_claimed_at = Timestamp(required=True)


class VendorDebtsMeta(OffsetMetaSchema):
    """The page, and the sum of the debts of all matching vendors."""

    owed_minor = MinorAmount(required=True, data_key="owedMinor")


class SetBankAccount(Schema):
    """A new bank account for payouts."""

    bank_code = BankCode(required=True)
    account_number = AccountNumber(required=True)


class UpdateStorePolicies(Schema):
    """Changes to a store's policies. Omitted fields stay unchanged, and null removes a policy."""

    returns = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)
    delivery = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)
    warranty = Text(max_length=_MAX_POLICY_LENGTH, allow_none=True)


class SetStoreVacation(Schema):
    """A store's vacation, until a time or until the store ends the vacation."""

    until = Timestamp(allow_none=True, load_default=None)
    note = Text(max_length=300, allow_none=True, load_default=None)


class UpdateStoreProfile(ExpectedRevision):
    """Changes to a store's profile. Omitted fields stay unchanged."""

    display_name = SingleLineText(min_length=2, max_length=80)
    description = Text(min_length=0, max_length=5_000)
    policies = fields.Nested(UpdateStorePolicies)
    vacation_mode = fields.Nested(
        SetStoreVacation, allow_none=True, metadata={"description": "Null ends the vacation."}
    )
    bank_account = fields.Nested(SetBankAccount)


class StorePoliciesView(Schema):
    """A store's policies; null for a missing policy."""

    returns = fields.String(required=True, allow_none=True)
    delivery = fields.String(required=True, allow_none=True)
    warranty = fields.String(required=True, allow_none=True)


class StoreVacationView(Schema):
    """A store's vacation, with the end if known."""

    until = Timestamp(required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)


class BankAccountView(Schema):
    """A bank account for payouts, with only the last four digits of the account number.

    ``heldUntil`` is the end of the hold of a new account.
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
    """A store's profile. Only the owner sees the bank account and the holds."""

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
