"""Schemas of payments, statements and banks."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.csv_export import FORMATS
from blueprints.http.field_docs import ACCEPTED_AT, OTHER_ID, doc
from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    CursorQuery,
    DateRangeQuery,
    FullMatch,
    HttpUrl,
    Identified,
    MinorAmount,
    Schema,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.kernel import demo_ids
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.orders import states as order_states
from marketplace.payments import states

_ORDER_STATUSES = sorted(order_states.ORDER.states)
_REFERENCE = FullMatch(
    "checkout-[0-9a-f]{32}", error="Must be `checkout-` followed by 32 lowercase hex digits."
)


class CreatePaymentIntent(Schema):
    """The target of a payment: an order or a checkout."""

    example_omits = frozenset({"checkout_id"})

    order_id = Uuid(metadata=doc("Id of an unpaid order of the caller.", demo_ids.UNPAID_ORDER))
    checkout_id = Uuid(metadata=doc("Id of an unpaid checkout of the caller.", OTHER_ID))
    callback_url = HttpUrl()

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require exactly one target."""
        if sum(name in data for name in ("order_id", "checkout_id", "reference")) != 1:
            raise ValidationError(f"Send exactly one of {self._target_names}.", "orderId")

    _target_names = "`orderId` and `checkoutId`"


class InitializePayment(CreatePaymentIntent):
    """The target of a payment: an order, a checkout or an existing payment."""

    example_omits = frozenset({"checkout_id", "reference"})

    reference = fields.String(validate=_REFERENCE)
    _target_names = "`orderId`, `checkoutId` and `reference`"


class VerifyPayment(Schema):
    """The payment to verify."""

    reference = fields.String(required=True, validate=_REFERENCE)


class PaymentSummary(Schema):
    """A payment with reference, status and amount."""

    reference = fields.String(required=True)
    status = Choice(
        *sorted(states.INTENT.states), required=True, metadata=doc("Status of the payment.", "initialized")
    )
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 320_000))
    currency = fields.String(required=True)


class PaymentIntentView(PaymentSummary):
    """A payment intent with the ids of its orders."""

    order_ids = fields.List(
        Uuid(), required=True, metadata=doc("Ids of the paid orders.", [demo_ids.UNPAID_ORDER])
    )


class HostedPageView(Schema):
    """The hosted payment page of the gateway."""

    reference = fields.String(required=True)
    authorization_url = fields.Url(
        required=True,
        require_tld=False,
        metadata=doc(
            "Page of the gateway on which the buyer pays.", "https://checkout.gateway.example/0peioxfhpn"
        ),
    )
    access_code = fields.String(required=True, metadata=doc("The gateway's code of the page.", "0peioxfhpn"))
    amount_minor = MinorAmount(required=True, metadata=doc("Amount in kobo.", 320_000))


class PaymentOrder(Identified):
    """An order of a payment."""

    example_id = demo_ids.ORDER

    number = fields.String(required=True)
    status = Choice(*_ORDER_STATUSES, required=True, metadata=doc("Status of the order.", "paid_escrow"))


class PaymentView(PaymentSummary):
    """A payment with status, channel and orders."""

    channel = Choice(*states.CHANNELS, required=True, allow_none=True)
    paid_at = Timestamp(required=True, allow_none=True)
    orders = fields.List(
        fields.Nested(PaymentOrder), required=True, metadata=doc("Orders that the payment pays.")
    )


class LedgerEntryQuery(DateRangeQuery, CursorQuery):
    """Filters of the caller's statement; ``to`` is exclusive."""

    kind = Text(
        max_length=40, load_default=None, metadata=doc("Only entries of this kind of transaction.", "refund")
    )
    direction = Choice(
        "debit", "credit", load_default=None, metadata=doc("Only credits, or only debits.", "credit")
    )
    order_id = Uuid(load_default=None, metadata=doc("Only entries of this order.", demo_ids.REFUNDED_ORDER))
    format = Choice(*FORMATS, load_default=None)


class LedgerEntryView(Identified):
    """An entry of the caller's statement; the fields are in the order of the CSV columns."""

    transaction_id = Uuid(required=True)
    account = fields.String(
        required=True, metadata=doc("Kind of the account: `wallet` or `vendor_payable`.", "vendor_payable")
    )
    kind = Choice(
        *TRANSACTION_KINDS, required=True, metadata=doc("Kind of the ledger transaction.", "release")
    )
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True, metadata=doc("Amount in kobo.", 679_250))
    balance_after_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("Balance of the account after the entry, in kobo; null for other accounts.", 679_250),
    )
    order_id = Uuid(required=True, allow_none=True)
    description = fields.String(
        required=True, metadata=doc("Description in a sentence.", "Escrow of order CM-100001 released")
    )
    created_at = Timestamp(required=True)


class BankView(Schema):
    """A supported bank."""

    code = fields.String(required=True, metadata=doc("Code of the bank.", "058"))
    name = fields.String(required=True, metadata=doc("Name of the bank.", "Guaranty Trust Bank"))


class ResolveBankAccount(Schema):
    """The bank account to resolve."""

    account_number = AccountNumber(
        required=True, metadata=doc("Account number (NUBAN), 10 digits.", "0123456789")
    )
    bank_code = BankCode(required=True)


class BankAccountView(Schema):
    """A bank account with the holder's name."""

    bank_name = fields.String(required=True)
    account_number = fields.String(
        required=True, metadata=doc("Account number (NUBAN), 10 digits.", "0123456789")
    )
    account_name = fields.String(required=True)


class ResolvedBankAccount(BankAccountView):
    """A resolved bank account with the bank's code."""

    bank_code = fields.String(required=True)


class VirtualAccount(BankAccountView):
    """A bank account for a single payment: transfer exactly ``amountMinor`` until ``expiresAt``."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True, metadata=doc("Exact amount to transfer, in kobo.", 320_000))
    expires_at = Timestamp(required=True, metadata=doc("End of the time for the transfer.", ACCEPTED_AT))
