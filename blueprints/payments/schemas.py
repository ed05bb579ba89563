"""What payments are asked with, and what they look like."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.fields import Address, Choice, Matches, Minor, Moment, Schema, Text, Uuid
from blueprints.http.paging import CursorQuery
from blueprints.http.periods import PeriodQuery
from blueprints.http.tabular import FORMATS
from marketplace.payments import states

_REFERENCE = Matches("checkout-[0-9a-f]{32}", error="Must be checkout- and 32 lowercase hex digits.")


class MakeIntent(Schema):
    """What is to be paid: an order or a checkout."""

    order_id = Uuid()
    checkout_id = Uuid()
    callback_url = Address()

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Ask for exactly one thing to be paid."""
        named = [name for name in ("order_id", "checkout_id", "reference") if name in data]
        if len(named) != 1:
            raise ValidationError(f"Send one of {self._targets}.", "orderId")

    _targets = "orderId and checkoutId"


class Initialize(MakeIntent):
    """What is to be paid: an order, a checkout, or an intent by its reference."""

    reference = fields.String(validate=_REFERENCE)
    _targets = "orderId, checkoutId and reference"


class Verify(Schema):
    """Which payment is asked about."""

    reference = fields.String(required=True, validate=_REFERENCE)


class IntentView(Schema):
    """A payment that is not opened at the gateway."""

    reference = fields.String(required=True)
    status = Choice(*sorted(states.INTENT.states), required=True)
    amount_minor = Minor(required=True)
    currency = fields.String(required=True)
    order_ids = fields.List(Uuid(), required=True)


class PageView(Schema):
    """Where the buyer pays."""

    reference = fields.String(required=True)
    authorization_url = fields.Url(required=True, require_tld=False)
    access_code = fields.String(required=True)
    amount_minor = Minor(required=True)


class PaidOrder(Schema):
    """An order that a payment is for."""

    id = Uuid(required=True)
    number = fields.String(required=True)
    status = fields.String(required=True)


class PaymentView(Schema):
    """What became of a payment."""

    reference = fields.String(required=True)
    status = Choice(*sorted(states.INTENT.states), required=True)
    amount_minor = Minor(required=True)
    currency = fields.String(required=True)
    channel = fields.String(required=True, allow_none=True)
    paid_at = Moment(required=True, allow_none=True)
    orders = fields.List(fields.Nested(PaidOrder), required=True)


class EntryQuery(PeriodQuery, CursorQuery):
    """Which entries of the caller's statement are listed; ``to`` is exclusive."""

    kind = Text(most=40, load_default=None)
    direction = Choice("debit", "credit", load_default=None)
    order_id = Uuid(load_default=None)
    format = Choice(*FORMATS, load_default=None)


class EntryView(Schema):
    """An entry of the caller's statement."""

    id = Uuid(required=True)
    transaction_id = Uuid(required=True)
    account = fields.String(required=True)
    kind = fields.String(required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = Minor(low=1, required=True)
    balance_after_minor = Minor(required=True, allow_none=True)
    order_id = Uuid(required=True, allow_none=True)
    description = fields.String(required=True)
    created_at = Moment(required=True)
