"""Banks, whose account a number is, and paying by transfer to an account made for the payment."""

from functools import partial
from typing import Any

from marshmallow import fields

from blueprints.http.contract import AUTHENTICATED, Shared
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.http.fields import AccountNumber, BankCode, Minor, Moment, Schema
from blueprints.payments.routes import callback_url_of
from blueprints.payments.schemas import MakeIntent
from marketplace.payments.intents import bank_transfer, banks
from marketplace.payments.intents.lifecycle import Target
from marketplace.providers.gateway.payments import customer_email

area = Area("banks", "/api/payments", "Banks, bank accounts, and paying by bank transfer")


class BankView(Schema):
    """A bank that accounts can be at."""

    code = fields.String(required=True)
    name = fields.String(required=True)


class ResolveAccount(Schema):
    """Which account is asked about."""

    account_number = AccountNumber(required=True)
    bank_code = BankCode(required=True)


class ResolvedAccount(Schema):
    """A bank account, and the name that it is kept under."""

    account_name = fields.String(required=True)
    account_number = fields.String(required=True)
    bank_code = fields.String(required=True)
    bank_name = fields.String(required=True)


class VirtualAccount(Schema):
    """Where the transfer of a payment goes; exactly ``amountMinor`` pays it, until ``expiresAt``."""

    reference = fields.String(required=True)
    bank_name = fields.String(required=True)
    account_number = fields.String(required=True)
    account_name = fields.String(required=True)
    amount_minor = Minor(required=True)
    expires_at = Moment(required=True)


@area.get("/banks", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=BankView(many=True), phased=True)
def list_banks(ctx: Context) -> list[dict[str, Any]]:
    """List the banks that accounts can be at, with their codes, by name."""
    found = banks.list_banks(ctx.services.cache, ctx.services.gateway)
    return [{"code": bank.code, "name": bank.name} for bank in found]


@area.post(
    "/bank/resolve", auth=AUTHENTICATED, limit="10/minute", body=ResolveAccount, reply=ResolvedAccount,
    phased=True,
)  # fmt: skip
def resolve(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Tell the name that a bank account is kept under."""
    return banks.resolve_account(ctx.services.cache, ctx.services.gateway, **body)


@area.post(
    "/virtual-account", auth=AUTHENTICATED, limit="5/minute", body=MakeIntent, reply=VirtualAccount,
    phased=True,
)  # fmt: skip
def virtual_account(ctx: Context, body: dict[str, Any]) -> LastPhase:
    """Give an account to pay an order or a checkout to by bank transfer; again, the same one."""
    intent, account = bank_transfer.open_account(
        ctx.services.database,
        ctx.services.gateway,
        buyer_id=ctx.user.id,
        email=customer_email(ctx.user.email, ctx.user.id),
        target=Target(order_id=body.get("order_id"), checkout_id=body.get("checkout_id")),
        callback_url=callback_url_of(ctx, body),
        clock=ctx.services.clock,
    )
    return LastPhase(partial(bank_transfer.record_account, intent=intent, account=account, now=ctx.now))
