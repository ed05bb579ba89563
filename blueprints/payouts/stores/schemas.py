"""What stores' owners change, and how a store is shown."""

from marshmallow import fields

from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.payouts.payees import holds

_MAX_POLICY_LENGTH = 2_000


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


class UpdateStoreProfile(Schema):
    """Changes to a store; what is left out stays as it is."""

    display_name = SingleLineText(min_length=2, max_length=80)
    description = Text(min_length=0, max_length=5_000)
    policies = fields.Nested(UpdateStorePolicies)
    vacation_mode = fields.Nested(
        SetStoreVacation, allow_none=True, metadata={"description": "Null ends it."}
    )
    bank_account = fields.Nested(SetBankAccount)
    revision = StrictInteger(
        minimum=1, metadata={"description": "The one that was read; a stale one is refused."}
    )


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


class PayoutHoldReasonView(Schema):
    """What holds payouts back, and until when if time ends it."""

    reason = Choice(*holds.ALL_HOLD_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)
    detail = fields.String(required=True)


class StoreProfileView(Schema):
    """A store. Bank account and holds are shown to whoever runs it."""

    id = Uuid(required=True)
    display_name = fields.String(required=True)
    slug = fields.String(required=True)
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
