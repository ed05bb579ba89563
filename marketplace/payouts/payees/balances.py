"""What payees have: what can be paid, what is in escrow, on its way or held, and what they owe us."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account
from marketplace.orders.vendor_escrow_balance import fetch_vendor_escrow_balance
from marketplace.payouts.payees import holds as payee_holds
from marketplace.payouts.payees.holds import Hold, find_vendor_holds, find_wallet_holds, include_platform_halt
from marketplace.payouts.payees.withdrawable import fetch_remaining_rewards
from marketplace.platform.queries import fetch_platform_settings

_SELECT_LEDGER_BALANCES = Statement(
    text("SELECT id, balance_minor FROM ledger_accounts WHERE id = ANY(:ids)")
)
_SUM_IN_TRANSIT = """
    SELECT coalesce(sum(amount_minor) FILTER (WHERE status = 'pending'), 0)::bigint AS waiting_minor,
        coalesce(sum(amount_minor) FILTER (WHERE status <> 'pending'), 0)::bigint AS sent_minor
    FROM payout_transfer_intents WHERE status IN ('pending', 'submitted', 'unknown')
"""
_SUM_STORE_PAYOUTS_IN_TRANSIT = Statement(text(f"{_SUM_IN_TRANSIT} AND vendor_id = :vendor_id"))
_SUM_CASH_OUTS_IN_TRANSIT = Statement(text(f"{_SUM_IN_TRANSIT} AND user_id = :user_id AND vendor_id IS NULL"))


def minimum_payout(session: Session) -> int:
    """Give the least that is paid out at once, in kobo, as officers have set it."""
    return int(fetch_platform_settings(session)["minimum_payout_minor"])


def show_store_balance(session: Session, *, vendor_id: UUID, now: datetime) -> dict[str, Any]:
    """Tell what a vendor has, in kobo, and what holds it back.

    What they owe us is taken before they are paid, so it is not available. In escrow is their own share, as it
    would be released.

    :param vendor_id: the store's
    :param now: the time of the request
    """
    payable, debt = accounts.vendor_payable(vendor_id), accounts.vendor_receivable(vendor_id)
    ledger_balances = _fetch_ledger_balances(session, payable, debt)
    payable_minor, owed_minor = ledger_balances[payable], ledger_balances[debt]
    net = max(payable_minor - owed_minor, 0)
    in_transit = _SUM_STORE_PAYOUTS_IN_TRANSIT.one(session, vendor_id=vendor_id)
    escrow = fetch_vendor_escrow_balance(session, vendor_id=vendor_id)
    holds = include_platform_halt(
        session, find_vendor_holds(session, vendor_ids=[vendor_id], now=now)[vendor_id]
    )
    return {
        "vendorId": vendor_id,
        "currency": CURRENCY,
        "availableMinor": 0 if holds else net,
        "onHoldMinor": net if holds else 0,
        "holds": payee_holds.serialize_holds(holds),
        "heldUntil": _find_end_of_holds(holds),
        "inEscrowMinor": escrow.held_minor,
        "ordersInEscrow": escrow.held_order_count,
        "frozenMinor": escrow.frozen_minor,
        "ordersFrozen": escrow.frozen_order_count,
        "inTransitMinor": in_transit["waiting_minor"] + in_transit["sent_minor"],
        "waitingMinor": in_transit["waiting_minor"],
        "sentMinor": in_transit["sent_minor"],
        "payableMinor": payable_minor,
        "owedMinor": owed_minor,
        "minimumPayoutMinor": minimum_payout(session),
    }


def show_wallet_balance(session: Session, *, user_id: UUID, now: datetime) -> dict[str, Any]:
    """Tell what is in a wallet, and what of it can be paid out, in kobo.

    :param user_id: whose wallet
    :param now: the time of the request
    """
    wallet, debt = accounts.wallet(user_id), accounts.buyer_receivable(user_id)
    ledger_balances = _fetch_ledger_balances(session, wallet, debt)
    balance, owed = ledger_balances[wallet], ledger_balances[debt]
    rewards = fetch_remaining_rewards(session, user_id=user_id, balance_minor=balance)
    in_transit = _SUM_CASH_OUTS_IN_TRANSIT.one(session, user_id=user_id)
    return {
        "balanceMinor": balance,
        "cashableMinor": max(balance - owed - rewards, 0),
        "fromRewardsMinor": rewards,
        "inTransitMinor": in_transit["waiting_minor"] + in_transit["sent_minor"],
        "owedMinor": owed,
        "minimumPayoutMinor": minimum_payout(session),
        "currency": CURRENCY,
        "holds": payee_holds.serialize_holds(
            include_platform_halt(session, find_wallet_holds(session, user_ids=[user_id], now=now)[user_id])
        ),
    }


def sum_pending_payouts(session: Session, *, user_id: UUID, vendor_id: UUID | None) -> int:
    """Give what is in payouts that wait to be sent, in kobo.

    :param user_id: whose
    :param vendor_id: of their store; none: of their wallet
    """
    in_transit = (
        _SUM_CASH_OUTS_IN_TRANSIT.one(session, user_id=user_id)
        if vendor_id is None
        else _SUM_STORE_PAYOUTS_IN_TRANSIT.one(session, vendor_id=vendor_id)
    )
    pending_minor: int = in_transit["waiting_minor"]
    return pending_minor


def _fetch_ledger_balances(session: Session, *ledger_accounts: Account) -> dict[Account, int]:
    """Give the balances of accounts by the books; one that was never opened holds nothing."""
    balance_of = {
        row["id"]: row["balance_minor"]
        for row in _SELECT_LEDGER_BALANCES.all(session, ids=[account.id for account in ledger_accounts])
    }
    return {account: balance_of.get(account.id, 0) for account in ledger_accounts}


def _find_end_of_holds(holds: tuple[Hold, ...]) -> datetime | None:
    """Give when time will have ended all holds; none where something else has to."""
    ends = [hold.until for hold in holds if hold.until is not None]
    return max(ends) if ends and len(ends) == len(holds) else None
