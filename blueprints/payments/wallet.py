"""The caller's wallet: money of theirs that the service keeps, to pay orders with."""

from typing import Any

from blueprints.http.contract import AUTHENTICATED, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.payments.schemas import WalletView
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts, queries

area = Area("wallet", "/api/wallet", "The caller's wallet")


@area.get("", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=WalletView)
def balance(ctx: Context) -> dict[str, Any]:
    """This function will tell what is in the caller's wallet; its entries are in their statement."""
    minor = queries.balance_of(ctx.session, account=accounts.wallet(ctx.user.id))
    return {"balanceMinor": minor, "currency": CURRENCY}
