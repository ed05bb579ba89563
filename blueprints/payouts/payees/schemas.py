"""Schemas of payouts, balances, statements and store profiles: requests and responses."""

from marshmallow import fields

from blueprints.http.envelope import OffsetMetaSchema
from blueprints.http.field_docs import DELIVERED_AT, PROMOTION_END, STORE_NAME, doc
from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    ClearableFields,
    ClearList,
    DateRangeQuery,
    ExpectedRevision,
    Identified,
    MinorAmount,
    OffsetQuery,
    OpeningHours,
    OpeningHoursView,
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
from marketplace.kernel import demo_ids
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.payouts import states
from marketplace.payouts.payees import balances, holds, payout_history

_MAX_POLICY_LENGTH = 2_000


class VendorSelectionQuery(Schema):
    """The store of the request: required for staff, and the vendor's own store by default."""

    vendor_id = Uuid(load_default=None)


class CashOutQuery(DateRangeQuery, OffsetQuery):
    """Filters of payouts from the caller's wallet; ``to`` is exclusive."""

    sort = sort_choice(payout_history.SORTS, default="created_at")
    status = Choice(
        *sorted(states.PAYOUT.states),
        load_default=None,
        metadata=doc("Only payouts with this status.", "pending"),
    )


class PayoutQuery(CashOutQuery, VendorSelectionQuery):
    """Filters of payouts; ``to`` is exclusive."""

    source = Choice(
        *payout_history.SOURCES,
        load_default=None,
        metadata=doc("Only payouts of stores, or only of wallets.", "store"),
    )
    batch_id = Uuid(load_default=None)


class RequestPayout(Schema):
    """The amount to pay out, in kobo."""

    amount_minor = MinorAmount(
        minimum=1, required=True, metadata=doc("Amount in kobo, at least the minimum payout.", 200_000)
    )


class PayeeView(Identified):
    """The payee of a payout."""

    example_id = demo_ids.VENDOR_OWNER

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Ngozi Adeyemi")
    )


class PayoutVendor(Identified):
    """The store that a payout is for."""

    example_id = demo_ids.STORE

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

    status = Choice(
        *sorted(states.PAYOUT.states), required=True, metadata=doc("Status of the payout.", "success")
    )
    source = Choice(
        *payout_history.SOURCES, required=True, metadata=doc("Balance that the payout is paid from.", "store")
    )
    amount_minor = MinorAmount(minimum=1, required=True, metadata=doc("Amount in kobo.", 679_250))
    currency = fields.String(required=True)
    asked_for = fields.Boolean(required=True, metadata=doc("Whether the payee requested the payout.", False))
    reason = fields.String(
        required=True, allow_none=True, metadata=doc("Reason of a failure or reversal; null otherwise.", None)
    )
    batch_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of the payout batch; null before the staging.", demo_ids.PAYOUT_BATCH),
    )
    reference = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "Reference of the transfer; null before the dispatch.", "payout-01958b3c7a107c3e9d524f6a8b0c1d2e"
        ),
    )
    payee = fields.Nested(PayeeView, required=True, metadata=doc("Person who is paid."))
    vendor = fields.Nested(
        PayoutVendor, required=True, allow_none=True, metadata=doc("Store that is paid; null for a wallet.")
    )
    bank_account = fields.Nested(
        PayoutAccountView, required=True, metadata=doc("Bank account of the payout.")
    )
    sent_at = Timestamp(required=True, allow_none=True)
    settled_at = Timestamp(required=True, allow_none=True)


class PayoutHoldReasonView(Schema):
    """A hold: the reason that blocks payouts, and the end if known."""

    reason = Choice(
        *holds.ALL_HOLD_REASONS, required=True, metadata=doc("Reason of the hold.", "bank_account_changed")
    )
    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the hold; null without a known end.", DELIVERED_AT),
    )
    detail = fields.String(
        required=True,
        metadata=doc(
            "Reason and next step, for the payee.",
            "You changed your bank account. Payouts resume 24 hours after the change.",
        ),
    )


class PayeeBalanceView(Schema):
    """A payee's balance in kobo; ``inTransitMinor`` is the sum of pending and sent payouts."""

    currency = fields.String(required=True)
    in_transit_minor = MinorAmount(required=True, attribute="in_transit.total_minor")
    owed_minor = MinorAmount(required=True)
    minimum_payout_minor = MinorAmount(required=True)
    holds = fields.List(
        fields.Nested(PayoutHoldReasonView),
        required=True,
        metadata=doc("Reasons that block payouts; empty without a hold.", []),
    )


class VendorBalanceView(PayeeBalanceView):
    """A vendor's balance in kobo.

    ``availableMinor`` can be withdrawn now. While ``holds`` block payouts, the same amount is ``onHoldMinor`` instead.
    ``heldShareMinor`` is always on hold: the vendor's shares of rulings that can still be appealed.
    ``heldUntil`` is the end of the holds if all have an end date. ``inEscrowMinor`` and ``frozenMinor`` are the
    vendor's shares of open and of disputed orders. ``inTransitMinor`` is the sum of pending and sent payouts.
    ``payableMinor`` is the ledger balance payable to the vendor. ``owedMinor`` is the vendor's debt, which is deducted
    first.
    """

    vendor_id = Uuid(required=True)
    available_minor = MinorAmount(
        required=True, metadata=doc("Amount that can be withdrawn now, in kobo.", 679_250)
    )
    on_hold_minor = MinorAmount(
        required=True, metadata=doc("Amount that could be withdrawn without the holds, in kobo.", 0)
    )
    held_share_minor = MinorAmount(
        required=True,
        metadata=doc("Shares of rulings on hold until the appeal period or the appeal ends, in kobo.", 0),
    )
    held_until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the holds; null without a hold or without a known end.", None),
    )
    in_escrow_minor = MinorAmount(
        required=True,
        attribute="escrow.held_minor",
        metadata=doc("The vendor's share of open orders, in kobo.", 1_150_000),
    )
    orders_in_escrow = StrictInteger(
        minimum=0,
        required=True,
        attribute="escrow.held_order_count",
        metadata=doc("Number of open orders.", 2),
    )
    frozen_minor = MinorAmount(
        required=True,
        attribute="escrow.frozen_minor",
        metadata=doc("The vendor's share of disputed orders, in kobo.", 0),
    )
    orders_frozen = StrictInteger(
        minimum=0,
        required=True,
        attribute="escrow.frozen_order_count",
        metadata=doc("Number of disputed orders.", 0),
    )
    waiting_minor = MinorAmount(
        required=True,
        attribute="in_transit.waiting_minor",
        metadata=doc("Sum of payouts that wait for the dispatch, in kobo.", 0),
    )
    sent_minor = MinorAmount(
        required=True,
        attribute="in_transit.sent_minor",
        metadata=doc("Sum of payouts at the gateway, in kobo.", 0),
    )
    payable_minor = MinorAmount(required=True)


class WalletView(PayeeBalanceView):
    """A wallet's balance in kobo. ``cashableMinor`` can be paid out, unless ``holds`` block payouts.

    Rewards cannot be paid out, and debts are deducted first. ``inTransitMinor`` is the sum of pending and sent payouts.
    """

    balance_minor = MinorAmount(required=True, metadata=doc("Balance in kobo.", 370_000))
    cashable_minor = MinorAmount(
        required=True, metadata=doc("Part of the balance that can be paid out, in kobo.", 370_000)
    )
    from_rewards_minor = MinorAmount(
        required=True, metadata=doc("Part of the balance from rewards, which cannot be paid out, in kobo.", 0)
    )


class StatementQuery(DateRangeQuery, VendorSelectionQuery):
    """The period of a statement; ``to`` is exclusive. The default is the UTC month of ``to``."""

    format = Choice("json", "csv", "pdf", load_default=None)


class StatementEntry(Schema):
    """A ledger entry and the resulting balance: the amount payable to the vendor minus the vendor's debt."""

    at = Timestamp(required=True, metadata=doc("Time of the entry.", DELIVERED_AT))
    kind = Choice(
        *TRANSACTION_KINDS, required=True, metadata=doc("Kind of the ledger transaction.", "release")
    )
    description = fields.String(
        required=True, metadata=doc("Description in a sentence.", "Escrow of order CM-100001 released")
    )
    order_number = fields.String(required=True, allow_none=True)
    account = Choice(
        "vendor_payable",
        "vendor_receivable",
        required=True,
        metadata=doc("Balance or debt of the vendor.", "vendor_payable"),
    )
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True, metadata=doc("Amount in kobo.", 679_250))
    balance_minor = fields.Integer(
        required=True, metadata=doc("Balance after the entry in kobo; negative for a debt.", 679_250)
    )
    order_id = Uuid(required=True, allow_none=True)
    transaction_id = Uuid(required=True)


class StatementView(Schema):
    """A vendor's statement of a period, the earliest entry first. A negative balance is a debt of the vendor."""

    vendor = fields.Nested(PayoutVendor, required=True, metadata=doc("Store of the statement."))
    from_ = Timestamp(required=True, data_key="from", attribute="period.starts")
    to = Timestamp(required=True, attribute="period.ends")
    currency = fields.String(required=True)
    opening_balance_minor = fields.Integer(
        required=True, metadata=doc("Balance at the start in kobo; negative for a debt.", 0)
    )
    credited_minor = MinorAmount(required=True, metadata=doc("Sum of the credits in kobo.", 679_250))
    debited_minor = MinorAmount(required=True, metadata=doc("Sum of the debits in kobo.", 0))
    closing_balance_minor = fields.Integer(
        required=True, metadata=doc("Balance at the end in kobo; negative for a debt.", 679_250)
    )
    entries = fields.List(
        fields.Nested(StatementEntry), required=True, metadata=doc("Entries, earliest first.")
    )


class VendorDebtQuery(OffsetQuery, VendorSelectionQuery):
    """Filters of vendors with debts."""

    sort = sort_choice(balances.DEBT_SORTS, default="owed_minor")


class VendorDebtView(Schema):
    """A vendor's debt: all claims minus the amounts collected from payouts."""

    vendor_id = Uuid(required=True)
    vendor_name = fields.String(required=True, metadata=doc("Public name of the store.", STORE_NAME))
    owed_minor = MinorAmount(
        minimum=1, required=True, metadata=doc("Debt in kobo, deducted from payouts first.", 120_000)
    )
    payable_minor = MinorAmount(
        required=True, metadata={"description": "Balance payable to the vendor. The debt is deducted first."}
    )
    claimed_minor = MinorAmount(required=True, metadata=doc("Sum of all claims in kobo.", 679_250))
    collected_minor = MinorAmount(
        required=True, metadata=doc("Sum that was deducted from payouts, in kobo.", 559_250)
    )
    last_claimed_at = Timestamp(required=True, metadata=doc("Time of the latest claim.", DELIVERED_AT))


class VendorDebtsMeta(OffsetMetaSchema):
    """The page, and the sum of the debts of all matching vendors."""

    owed_minor = MinorAmount(
        required=True,
        data_key="owedMinor",
        metadata=doc("Sum of the debts of all matching vendors, in kobo.", 120_000),
    )


class SetBankAccount(Schema):
    """A new bank account for payouts."""

    bank_code = BankCode(required=True)
    account_number = AccountNumber(
        required=True,
        metadata=doc(
            "Account number (NUBAN), 10 digits. The account must be in the caller's name.", "0123456789"
        ),
    )


class UpdateStorePolicies(Schema):
    """Changes to a store's policies. Omitted fields stay unchanged."""

    returns = Text(
        max_length=_MAX_POLICY_LENGTH,
        metadata=doc("Returns.", "Returns within two days."),
    )
    delivery = Text(
        max_length=_MAX_POLICY_LENGTH,
        metadata=doc("Delivery.", "Orders before noon go out the same day."),
    )
    warranty = Text(
        max_length=_MAX_POLICY_LENGTH,
        metadata=doc("Warranty.", "One month on electronics."),
    )


class SetStoreVacation(Schema):
    """A store's vacation, until a time or until the store ends the vacation."""

    until = Timestamp(
        load_default=None,
        metadata=doc("End of the vacation, if known.", PROMOTION_END),
    )
    note = Text(
        max_length=300,
        load_default=None,
        metadata=doc("Note for buyers.", "Back after the exams."),
    )


class UpdateStoreProfile(ClearableFields, ExpectedRevision):
    """Changes to a store's profile. Omitted fields stay unchanged."""

    display_name = SingleLineText(min_length=2, max_length=80)
    description = Text(
        min_length=0,
        max_length=5_000,
        metadata=doc("Introduction of the store.", "Books and gadgets for engineers."),
    )
    policies = fields.Nested(UpdateStorePolicies, metadata=doc("Policies to change."))
    vacation_mode = fields.Nested(
        SetStoreVacation, allow_none=True, metadata={"description": "Null ends the vacation."}
    )
    opening_hours = OpeningHours(
        metadata=doc(
            "Opening hours in Nigerian time, up to four intervals a day. They replace the present hours."
        )
    )
    bank_account = fields.Nested(
        SetBankAccount,
        metadata=doc("New bank account for payouts. Payouts are on hold for 24 hours after a change."),
    )
    clear = ClearList("policies.returns", "policies.delivery", "policies.warranty", "openingHours")


class StorePoliciesView(Schema):
    """A store's policies; null for a missing policy."""

    returns = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Returns; null without a policy.", "Returns within two days."),
    )
    delivery = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Delivery; null without a policy.", "Orders before noon go out the same day."),
    )
    warranty = fields.String(
        required=True, allow_none=True, metadata=doc("Warranty; null without a policy.", None)
    )


class StoreVacationView(Schema):
    """A store's vacation, with the end if known."""

    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the vacation; null without a known end.", PROMOTION_END),
    )
    note = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Note for buyers; null without a note.", "Back after the exams."),
    )


class BankAccountView(Schema):
    """A bank account for payouts, with only the last four digits of the account number.

    ``heldUntil`` is the end of the hold of a new account.
    """

    example_id = demo_ids.PAYOUT_ACCOUNT

    id = Uuid(required=True, attribute="account.id")
    bank_code = fields.String(required=True, attribute="account.bank_code")
    bank_name = fields.String(required=True, allow_none=True, attribute="account.bank_name")
    account_number = fields.String(required=True, attribute="account.masked_number")
    account_name = fields.String(required=True, attribute="account.account_name")
    since = Timestamp(
        required=True, attribute="account.created_at", metadata=doc("Time of saving.", "2025-11-02T08:00:00Z")
    )
    replaced_at = Timestamp(
        required=True,
        allow_none=True,
        attribute="account.replaced_at",
        metadata=doc("Time when another account replaced this account; null for the present account.", None),
    )
    held_until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the hold of payouts after a change; null without a hold.", None),
    )


class StoreProfileView(StoreName):
    """A store's profile. Only the owner sees the bank account and the holds."""

    campus_id = Uuid(required=True)
    description = fields.String(
        required=True, metadata=doc("Introduction of the store.", "Books and gadgets for engineers.")
    )
    policies = fields.Nested(StorePoliciesView, required=True, metadata=doc("Policies of the store."))
    vacation_mode = fields.Nested(
        StoreVacationView,
        required=True,
        allow_none=True,
        metadata=doc("Vacation of the store; null while the store sells.", None),
    )
    opening_hours = OpeningHoursView(
        required=True,
        allow_none=True,
        metadata=doc("Opening hours by day, in Nigerian time; null while unknown."),
    )
    open_now = fields.Boolean(
        required=True,
        allow_none=True,
        metadata=doc("Whether the store is open now; null while the hours are unknown.", True),
    )
    opens_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Next opening of a closed store; null while the store is open or on vacation.", None),
    )
    closes_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the current opening; null for a closed store.", "2026-03-02T19:00:00Z"),
    )
    rating = fields.Float(required=True, allow_none=True)
    rating_count = StrictInteger(minimum=0, required=True)
    rating_counts = fields.List(
        StrictInteger(minimum=0),
        required=True,
        metadata=doc("Numbers of ratings with 1, 2, 3, 4 and 5 stars.", [0, 0, 1, 5, 12]),
    )
    completed_orders = StrictInteger(minimum=0, required=True)
    completion_rate = fields.Float(
        required=True,
        allow_none=True,
        metadata=doc("Delivered share of the ended orders, from 0 to 1; null without ended orders.", 0.97),
    )
    response_minutes = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Average minutes from payment to acceptance of an order; null without orders.", 40),
    )
    verified = fields.Boolean(required=True)
    verified_student = fields.Boolean(
        required=True, metadata=doc("Whether the platform has checked the owner's student ID.", True)
    )
    status = Choice(
        "active", "suspended", "closed", required=True, metadata=doc("Status of the store.", "active")
    )
    revision = StrictInteger(minimum=1, required=True)
    member_since = Timestamp(required=True)
    updated_at = Timestamp(required=True)
    bank_account = fields.Nested(
        BankAccountView,
        allow_none=True,
        metadata=doc("Bank account for payouts, only for the owner; null without an account."),
    )
    payout_holds = fields.List(
        fields.Nested(PayoutHoldReasonView),
        metadata=doc("Reasons that block payouts, only for the owner.", []),
    )
