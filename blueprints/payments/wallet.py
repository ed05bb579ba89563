"""The caller's wallet: money of theirs that the service keeps, to pay orders with or to have paid out."""

from typing import Any

from blueprints.http.contract import AUTHENTICATED, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.payments.schemas import WalletView
from marketplace.payouts.balances import balance_of_wallet

area = Area("wallet", "/api/wallet", "The caller's wallet")


@area.get("", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=WalletView)
def balance(ctx: Context) -> dict[str, Any]:
    """This function will tell what is in the caller's wallet, and what of it can be paid out.

    Its entries are in their statement.
    """
    return balance_of_wallet(ctx.session, user_id=ctx.user.id)
