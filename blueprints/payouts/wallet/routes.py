"""The caller's wallet: money of theirs that the service keeps, to pay orders with or to have paid out to their bank."""

from functools import partial
from typing import Any

from blueprints.http.contract import AUTHENTICATED, Idempotency, Shared
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.payouts.payees.schemas import AskForPayout, CashOutQuery, PayoutView, WalletView
from blueprints.payouts.stores.schemas import AccountView, GivenAccount
from marketplace.kernel.paging import TablePage
from marketplace.payouts import withdrawals
from marketplace.payouts.payees import bank_accounts, payout_history
from marketplace.payouts.payees.balances import balance_of_wallet
from marketplace.payouts.payees.payout_history import Filters

area = Area("wallet", "/api/wallet", "The caller's wallet, and payouts out of it")


@area.get("", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=WalletView)
def balance(ctx: Context) -> dict[str, Any]:
    """Tell what is in the caller's wallet, and what of it can be paid out.

    Its entries are in their statement.
    """
    return balance_of_wallet(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.get("/bank-account", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=AccountView(many=True))
def list_accounts(ctx: Context) -> list[dict[str, Any]]:
    """List the bank accounts that the caller's payouts went to, the present one first."""
    return bank_accounts.history_of(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.put(
    "/bank-account", auth=AUTHENTICATED, limit="10/minute", body=GivenAccount, reply=AccountView, phased=True
)
def give_account(ctx: Context, body: dict[str, Any]) -> LastPhase:
    """Have the caller's payouts go to another bank account, once the bank said whose it is.

    Nothing is sent there for 24 hours.
    """
    account = bank_accounts.resolve(ctx.services.cache, ctx.services.gateway, ctx.services.transfers, **body)
    return LastPhase(
        partial(bank_accounts.give, user_id=ctx.user.id, account=account, actor=ctx.actor, now=ctx.now)
    )


@area.get(
    "/cash-outs", auth=AUTHENTICATED, limit=Shared.GLOBAL, query=CashOutQuery, reply=PayoutView(many=True)
)
def list_cash_outs(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the payouts out of the caller's wallet."""
    filters = Filters(
        user_id=ctx.user.id, status=query["status"], source="wallet", starts=query["from_"], ends=query["to"]
    )
    return payout_history.list_payouts(ctx.session, filters=filters, page=ctx.table)


@area.post(
    "/cash-outs", auth=AUTHENTICATED, limit="10/minute", body=AskForPayout, reply=PayoutView, status=201,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def ask_for_cash_out(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Have money of the caller's wallet, but no rewards, paid out with the next batch."""
    return withdrawals.ask_for_cash_out(
        ctx.session, caller=ctx.user, amount_minor=body["amount_minor"], now=ctx.now
    )
