"""Payouts that people ask for: a vendor's early withdrawal, a cash-out of a wallet; and taking such a request back.

What is asked for is reserved in the books at once, and joins the next batch that is staged.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    ConflictError,
    InvalidParam,
    MarketplaceError,
    NotFoundError,
    ValidationError,
)
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import lock_balances
from marketplace.orders.vendor_escrow_balance import VendorEscrowBalance, fetch_vendor_escrow_balance
from marketplace.payments.refunds import buyer_debt
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.accounting.reservations import Payee, PayoutRequest
from marketplace.payouts.payees import payout_history
from marketplace.payouts.payees.balances import minimum_payout, sum_pending_payouts
from marketplace.payouts.payees.bank_accounts import find_current_account
from marketplace.payouts.payees.holds import (
    Hold,
    find_vendor_holds,
    find_wallet_holds,
    include_platform_halt,
    serialize_holds,
)
from marketplace.payouts.payees.withdrawable import fetch_remaining_rewards
from marketplace.platform import features
from marketplace.platform.queries import fetch_platform_settings
from marketplace.vendors.queries import find_store_of_user

_LOCK_OWN_PAYOUT = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status, batch_id FROM payout_transfer_intents
        WHERE id = :payout_id AND user_id = :user_id FOR NO KEY UPDATE
        """
    )
)


class EscrowLockedError(MarketplaceError):
    """The requested amount includes funds that are still in escrow or frozen."""

    code = "ESCROW_LOCKED"
    reason = "funds-in-escrow"


class PayoutsOnHoldError(ConflictError):
    """A hold blocks the payee's payouts."""

    reason = "payouts-on-hold"


class InsufficientBalanceError(ConflictError):
    """The requested amount exceeds the available balance."""

    reason = "insufficient-balance"


class PendingPayoutExistsError(ConflictError):
    """The payee already has a payout that has not been sent."""

    reason = "pending-payout-exists"


class PayoutNotCancellableError(ConflictError):
    """The payout is already in a batch or in a final state."""

    reason = "payout-not-cancellable"


def request_payout(session: Session, *, caller: Caller, amount_minor: int, now: datetime) -> dict[str, Any]:
    """Reserve what a vendor asks to be paid before the next staging does.

    What they owe us is taken first.

    :param caller: the vendor
    :param amount_minor: kobo
    :param now: the time of the request
    :return: the payout, as it is listed
    :raises NotFoundError: the caller has no store
    :raises FeatureUnavailableError: early withdrawals are switched off, or there is maintenance
    :raises EscrowLockedError: it takes money that is in escrow or frozen
    :raises PayoutsOnHoldError: something holds the vendor's payouts back, or everybody's
    :raises InsufficientBalanceError: there is less, and nothing in escrow either
    :raises ValidationError: it is less than the least payout
    :raises PendingPayoutExistsError: one waits already
    """
    store = find_store_of_user(session, user_id=caller.id)
    if store is None:
        raise NotFoundError("You have no store.")
    features.ensure_feature_on(fetch_platform_settings(session), features.EARLY_WITHDRAWALS, now=now)
    payee = Payee(caller.id, store.id)
    payable, debt = accounts.vendor_payable(store.id), accounts.vendor_receivable(store.id)
    balances = lock_balances(session, accounts=[payable, debt])
    available_minor = max(balances[payable] - balances[debt], 0)
    if amount_minor > available_minor:
        escrow = fetch_vendor_escrow_balance(session, vendor_id=store.id)
        if escrow.total_minor:
            raise _escrow_locked_error(
                escrow, available_minor, _describe_unavailable_amounts(session, payee, balances[debt])
            )
    _ensure_not_on_hold(session, find_vendor_holds(session, vendor_ids=[store.id], now=now)[store.id])
    return _reserve_request(session, payee, amount_minor, available_minor, debt_minor=balances[debt], now=now)


def request_cash_out(session: Session, *, caller: Caller, amount_minor: int, now: datetime) -> dict[str, Any]:
    """Reserve what somebody asks to be paid out of their wallet; rewards are not paid out.

    What they owe us is taken first.

    :param caller: whose wallet
    :param amount_minor: kobo
    :param now: the time of the request
    :return: the payout, as it is listed
    :raises FeatureUnavailableError: cash-outs are switched off, or there is maintenance
    :raises PayoutsOnHoldError: something holds the person's payouts back, or everybody's
    :raises InsufficientBalanceError: less can be paid out
    :raises ValidationError: it is less than the least payout
    :raises PendingPayoutExistsError: one waits already
    """
    features.ensure_feature_on(fetch_platform_settings(session), features.WALLET_CASH_OUTS, now=now)
    buyer_debt.offset_against_wallet(session, buyer_id=caller.id, now=now)
    wallet, debt = accounts.wallet(caller.id), accounts.buyer_receivable(caller.id)
    balances = lock_balances(session, accounts=[wallet, debt])
    rewards = fetch_remaining_rewards(session, user_id=caller.id, balance_minor=balances[wallet])
    _ensure_not_on_hold(session, find_wallet_holds(session, user_ids=[caller.id], now=now)[caller.id])
    withdrawable_minor = balances[wallet] - rewards
    return _reserve_request(
        session, Payee(caller.id, None), amount_minor, withdrawable_minor, debt_minor=balances[debt], now=now
    )


def cancel_request(session: Session, *, payout_id: UUID, caller: Caller, now: datetime) -> dict[str, Any]:
    """Call off what somebody had asked for, as long as it is in no batch: the money goes back.

    :param payout_id: the payout's
    :param caller: the payee
    :param now: the time of the request
    :return: the payout, as it is listed
    :raises NotFoundError: there is no such payout, or it is somebody else's
    :raises PayoutNotCancellableError: it is in a batch, or over
    """
    row = _LOCK_OWN_PAYOUT.first(session, payout_id=payout_id, user_id=caller.id)
    if row is None:
        raise NotFoundError("There is no such payout.")
    if row["status"] != states.PENDING or row["batch_id"] is not None:
        state = "in a batch" if row["status"] == states.PENDING else row["status"]
        raise PayoutNotCancellableError(
            f"The payout is {state}: only one that waits for a batch can be called off."
        )
    reservations.cancel_reservations(session, payouts=[row], now=now)
    return payout_history.show_payout(session, payout_id=payout_id)


def _reserve_request(
    session: Session, payee: Payee, amount_minor: int, available_minor: int, *, debt_minor: int, now: datetime
) -> dict[str, Any]:
    """Reserve what is asked for, of balances that are locked."""
    if amount_minor > available_minor:
        unavailable = _describe_unavailable_amounts(session, payee, debt_minor)
        raise InsufficientBalanceError(
            f"{'; '.join((f'{format_naira(available_minor)} can be paid out', *unavailable))}.",
            invalid_params=[_amount_too_large(available_minor)],
        )
    minimum = minimum_payout(session)
    if amount_minor < minimum:
        raise ValidationError.of("amountMinor", f"Is less than the least payout, {format_naira(minimum)}.")
    account = find_current_account(session, user_id=payee.user_id)
    if account is None:
        raise LookupError("nobody without a bank account gets here")
    result = reservations.reserve_payouts(
        session,
        requests=[PayoutRequest(payee, account.id, amount_minor)],
        batch_id=None,
        minimum_minor=minimum,
        requested_by_payee=True,
        now=now,
    )
    if not result.reservations:
        raise PendingPayoutExistsError(
            "A payout of yours waits to be sent already. Wait for it, or call it off first."
        )
    return payout_history.show_payout(session, payout_id=result.reservations[0].payout_id)


def _ensure_not_on_hold(session: Session, holds: tuple[Hold, ...]) -> None:
    holds = include_platform_halt(session, holds)
    if not holds:
        return
    serialized = serialize_holds(holds)
    raise PayoutsOnHoldError(
        " ".join(hold["detail"] for hold in serialized),
        extensions={
            "holds": [
                {"reason": hold.reason, "until": iso(hold.until) if hold.until else None} for hold in holds
            ]
        },
    )


def _describe_unavailable_amounts(session: Session, payee: Payee, debt_minor: int) -> list[str]:
    """Tell where else money of a payee's is than in what can be paid out, apart from escrow."""
    pending_minor = sum_pending_payouts(session, user_id=payee.user_id, vendor_id=payee.vendor_id)
    return _describe_amounts(
        (pending_minor, "are in a payout that waits to be sent"), (debt_minor, "are owed to us")
    )


def _describe_amounts(*parts: tuple[int, str]) -> list[str]:
    return [f"{format_naira(minor)} {description}" for minor, description in parts if minor]


def _amount_too_large(available_minor: int) -> InvalidParam:
    return InvalidParam("amountMinor", f"Is more than {format_naira(available_minor)}.")


def _escrow_locked_error(
    escrow: VendorEscrowBalance, available_minor: int, unavailable: list[str]
) -> EscrowLockedError:
    parts = _describe_amounts(
        (escrow.held_minor, "are in escrow until the buyers have their orders"),
        (escrow.frozen_minor, "are frozen by disputes"),
    )
    return EscrowLockedError(
        f"{format_naira(available_minor)} can be withdrawn; {'; '.join((*parts, *unavailable))}.",
        invalid_params=[_amount_too_large(available_minor)],
        extensions={
            "availableMinor": available_minor,
            "inEscrowMinor": escrow.held_minor,
            "frozenMinor": escrow.frozen_minor,
        },
    )
