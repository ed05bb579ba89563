"""The bank account that payouts out of the caller's wallet go to."""

from functools import partial
from typing import Any

from blueprints.http.contract import AUTHENTICATED, Shared
from blueprints.http.endpoint import Area, Context, LastPhase
from blueprints.payouts.schemas_vendors import AccountView, GivenAccount
from marketplace.payouts import accounts

area = Area("cash-outs", "/api/wallet", "Payouts out of the caller's wallet")


@area.get("/bank-account", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=AccountView(many=True))
def list_accounts(ctx: Context) -> list[dict[str, Any]]:
    """This function will list the bank accounts that the caller's payouts went to, the present one first."""
    return accounts.history_of(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.put(
    "/bank-account", auth=AUTHENTICATED, limit="10/minute", body=GivenAccount, reply=AccountView, phased=True
)
def give_account(ctx: Context, body: dict[str, Any]) -> LastPhase:
    """This function will have the caller's payouts go to another bank account, once the bank said whose it is.

    Nothing is sent there for 24 hours.
    """
    account = accounts.resolve(ctx.services.cache, ctx.services.gateway, ctx.services.transfers, **body)
    return LastPhase(
        partial(accounts.give, user_id=ctx.user.id, account=account, actor=ctx.actor, now=ctx.now)
    )
