"""Banks, whose account a number is, and paying by transfer to an account made for the payment."""

from functools import partial
from typing import Any

from marshmallow import fields

from blueprints.http.contract import AUTHENTICATED, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint, FinalPhase
from blueprints.http.fields import AccountNumber, BankCode, MinorAmount, Schema, Timestamp
from blueprints.payments.routes import parse_callback_url, parse_target
from blueprints.payments.schemas import CreatePaymentIntent
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payments.intents import banks, payment_methods
from marketplace.payments.intents.lifecycle import NotPayableError
from marketplace.providers.gateway.payloads import Bank
from marketplace.providers.gateway.payments import customer_email

area = ContractBlueprint("banks", "/api/payments", "Banks, bank accounts, and paying by bank transfer")


class BankView(Schema):
    """A bank that accounts can be at."""

    code = fields.String(required=True)
    name = fields.String(required=True)


class ResolveBankAccount(Schema):
    """Which account is asked about."""

    account_number = AccountNumber(required=True)
    bank_code = BankCode(required=True)


class BankAccountView(Schema):
    """A bank account with its holder's name."""

    bank_name = fields.String(required=True)
    account_number = fields.String(required=True)
    account_name = fields.String(required=True)


class ResolvedBankAccount(BankAccountView):
    """A bank account, and the name that it is kept under."""

    bank_code = fields.String(required=True)


class VirtualAccount(BankAccountView):
    """Where the transfer of a payment goes; exactly ``amountMinor`` pays it, until ``expiresAt``."""

    reference = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    expires_at = Timestamp(required=True)


@area.get("/banks", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=BankView(many=True), phased=True)
def list_banks(ctx: Context) -> list[Bank]:
    """List the banks that accounts can be at, with their codes, by name."""
    return banks.list_banks(ctx.services.cache, ctx.services.gateway)


@area.post(
    "/bank/resolve", auth=AUTHENTICATED, limit="10/minute", body=ResolveBankAccount, reply=ResolvedBankAccount,
    phased=True,
)  # fmt: skip
def resolve(ctx: Context, body: dict[str, Any]) -> banks.ResolvedAccount:
    """Tell the name that a bank account is kept under."""
    return banks.resolve_account(ctx.services.cache, ctx.services.gateway, **body)


@area.post(
    "/virtual-account", auth=AUTHENTICATED, limit="5/minute", body=CreatePaymentIntent, reply=VirtualAccount,
    phased=True,
    raises=(IllegalTransitionError, payment_methods.InitializationInProgressError, NotPayableError),
)  # fmt: skip
def virtual_account(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Give an account to pay an order or a checkout to by bank transfer; again, the same one."""
    intent, account = payment_methods.open_transfer_account(
        ctx.services.database,
        ctx.services.gateway,
        buyer_id=ctx.user.id,
        email=customer_email(ctx.user.email, ctx.user.id),
        target=parse_target(body),
        callback_url=parse_callback_url(ctx, body),
        clock=ctx.services.clock,
    )
    return FinalPhase(
        partial(payment_methods.record_transfer_account, intent=intent, account=account, now=ctx.now)
    )
