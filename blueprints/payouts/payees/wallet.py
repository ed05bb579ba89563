"""Routes of the caller's wallet: balance, bank account and cash-outs."""

from functools import partial
from typing import Any

from blueprints.http import (
    AUTHENTICATED_OR_DELETING,
    Context,
    ContractBlueprint,
    FinalPhase,
    Idempotency,
    SharedLimit,
)
from blueprints.payouts.payees.schemas import (
    BankAccountView,
    CashOutQuery,
    PayoutView,
    RequestPayout,
    SetBankAccount,
    WalletView,
)
from marketplace.kernel.paging import TablePage
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.payments.intents.banks import UnknownBankAccountError
from marketplace.payouts import withdrawals
from marketplace.payouts.payees import balances, bank_accounts, payout_history
from marketplace.platform.features import FeatureUnavailableError

area = ContractBlueprint("wallet", "/api/wallet", "The caller's wallet, and cash-outs")


@area.get("", auth=AUTHENTICATED_OR_DELETING, limit=SharedLimit.CALLER_TIER, reply=WalletView)
def get_wallet(ctx: Context) -> balances.WalletBalance:
    """Show the balance of the caller's wallet, and the part that can be paid out.

    `GET /api/transactions` lists the entries of the wallet.
    """
    return balances.show_wallet_balance(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.get(
    "/bank-account",
    auth=AUTHENTICATED_OR_DELETING,
    limit=SharedLimit.CALLER_TIER,
    reply=BankAccountView(many=True),
)
def list_bank_accounts(ctx: Context) -> list[bank_accounts.OwnAccount]:
    """List the caller's bank accounts for payouts, the current account first."""
    return bank_accounts.list_account_history(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.put(
    "/bank-account",
    auth=AUTHENTICATED_OR_DELETING,
    limit="10/minute",
    body=SetBankAccount,
    reply=BankAccountView,
    phased=True,
    raises=(UnknownBankAccountError,),
)
def set_bank_account(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Set the caller's bank account for payouts, after the bank has confirmed the account's holder.

    Payouts to a new account are on hold for 24 hours.
    """
    account = bank_accounts.resolve_payout_account(
        ctx.services.cache,
        ctx.services.gateway,
        ctx.services.transfers,
        account_number=body["account_number"],
        bank_code=body["bank_code"],
    )
    return FinalPhase(
        partial(
            bank_accounts.replace_and_show_account,
            user_id=ctx.user.id,
            account=account,
            act=ctx.act,
        )
    )


@area.get(
    "/cash-outs",
    auth=AUTHENTICATED_OR_DELETING,
    limit=SharedLimit.CALLER_TIER,
    query=CashOutQuery,
    reply=PayoutView(many=True),
)
def list_cash_outs(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the payouts from the caller's wallet."""
    return payout_history.list_payouts(
        ctx.session,
        page=ctx.table,
        user_id=ctx.user.id,
        status=query["status"],
        source="wallet",
        starts=query["from_"],
        ends=query["to"],
    )


@area.post(
    "/cash-outs", auth=AUTHENTICATED_OR_DELETING, limit="10/minute", body=RequestPayout, reply=PayoutView, status=201,
    idempotent=Idempotency.OPTIONAL,
    raises=(
        FeatureUnavailableError, withdrawals.InsufficientBalanceError, InsufficientFundsError,
        withdrawals.PayoutBelowMinimumError, withdrawals.PayoutsOnHoldError,
        withdrawals.PendingPayoutExistsError,
    ),
)  # fmt: skip
def request_cash_out(ctx: Context, body: dict[str, Any]) -> payout_history.PayoutView:
    """Request a cash-out of the caller's wallet with the next batch. Rewards cannot be paid out."""
    return withdrawals.request_cash_out(
        ctx.session, caller=ctx.user, amount_minor=body["amount_minor"], now=ctx.now
    )
