"""Withdrawal requests: vendors' early withdrawals and wallet cash-outs.

The amount of a request is reserved at once. The request joins the next staged batch.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    ConflictError,
    InvalidParam,
    MarketplaceError,
    ValidationError,
    found,
)
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import lock_balances
from marketplace.orders.vendor_escrow_balance import fetch_vendor_escrow_balance
from marketplace.payments.refunds import buyer_accounts
from marketplace.payouts import accounting, states, texts
from marketplace.payouts.payees import payout_history
from marketplace.payouts.payees.balances import (
    fetch_remaining_rewards,
    minimum_payout,
    sum_payouts_in_transit,
)
from marketplace.payouts.payees.bank_accounts import find_current_account
from marketplace.payouts.payees.holds import Hold, find_vendor_holds, find_wallet_holds, include_platform_halt
from marketplace.payouts.payees.payout_history import PayoutView
from marketplace.payouts.share_holds import sum_held_shares
from marketplace.platform import features
from marketplace.platform.queries import fetch_platform_settings
from marketplace.vendors.queries import find_store_of_user


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


class PayoutBelowMinimumError(ValidationError):
    """The requested amount is below the minimum payout."""

    reason = "payout-below-minimum"


class PendingPayoutExistsError(ConflictError):
    """The payee already has a payout that has not been sent."""

    reason = "pending-payout-exists"


class PayoutNotCancellableError(ConflictError):
    """The payout is already in a batch or in a final state."""

    reason = "payout-not-cancellable"


def request_payout(session: Session, *, caller: Caller, amount_minor: int, now: datetime) -> PayoutView:
    """Reserve a vendor's early withdrawal. The vendor's debt is collected first.

    :param amount_minor: kobo
    :raises NotFoundError: the caller has no store
    :raises FeatureUnavailableError: early withdrawals are switched off, or the service is in maintenance
    :raises EscrowLockedError: the amount includes funds in escrow
    :raises PayoutsOnHoldError: the vendor is on hold, or all payouts are halted
    :raises InsufficientBalanceError: the amount exceeds the balance, and nothing is in escrow
    :raises PayoutBelowMinimumError: the amount is below the minimum payout
    :raises PendingPayoutExistsError: the payee has another pending payout
    """
    store = found(find_store_of_user(session, user_id=caller.id), "You have no store.")
    features.ensure_feature_on(fetch_platform_settings(session), features.EARLY_WITHDRAWALS, now=now)
    payee = accounting.Payee(caller.id, store.id)
    payable, debt = accounts.vendor_payable(store.id), accounts.vendor_receivable(store.id)
    balances = lock_balances(session, accounts=[payable, debt])
    held_minor = sum_held_shares(session, vendor_ids=[store.id], now=now).get(store.id, 0)
    available_minor = max(balances[payable] - balances[debt] - held_minor, 0)
    if amount_minor > available_minor:
        escrow = fetch_vendor_escrow_balance(session, vendor_id=store.id)
        if escrow.total_minor:
            parts = [
                *_describe_amounts(
                    (escrow.held_minor, texts.UNAVAILABLE_IN_ESCROW),
                    (escrow.frozen_minor, texts.UNAVAILABLE_FROZEN),
                ),
                *_describe_unavailable_amounts(session, payee, balances[debt], held_minor),
            ]
            raise EscrowLockedError(
                " ".join((_describe_available(available_minor), *parts)),
                invalid_params=[_amount_too_large(available_minor)],
                extensions={
                    "availableMinor": available_minor,
                    "inEscrowMinor": escrow.held_minor,
                    "frozenMinor": escrow.frozen_minor,
                },
            )
    _ensure_not_on_hold(session, find_vendor_holds(session, vendor_ids=[store.id], now=now)[store.id])
    return _reserve_request(
        session,
        payee,
        amount_minor,
        available_minor,
        debt_minor=balances[debt],
        held_minor=held_minor,
        now=now,
    )


def request_cash_out(session: Session, *, caller: Caller, amount_minor: int, now: datetime) -> PayoutView:
    """Reserve a cash-out of the caller's wallet. Debts are collected first, and rewards are not paid out.

    :param amount_minor: kobo
    :raises FeatureUnavailableError: cash-outs are switched off, or the service is in maintenance
    :raises PayoutsOnHoldError: the person is on hold, or all payouts are halted
    :raises InsufficientBalanceError: the amount exceeds the withdrawable balance
    :raises PayoutBelowMinimumError: the amount is below the minimum payout
    :raises PendingPayoutExistsError: the payee has another pending payout
    """
    features.ensure_feature_on(fetch_platform_settings(session), features.WALLET_CASH_OUTS, now=now)
    buyer_accounts.offset_against_wallet(session, buyer_id=caller.id, now=now)
    wallet, debt = accounts.wallet(caller.id), accounts.buyer_receivable(caller.id)
    balances = lock_balances(session, accounts=[wallet, debt])
    rewards = fetch_remaining_rewards(session, user_id=caller.id, balance_minor=balances[wallet])
    _ensure_not_on_hold(session, find_wallet_holds(session, user_ids=[caller.id], now=now)[caller.id])
    return _reserve_request(
        session,
        accounting.Payee(caller.id, None),
        amount_minor,
        balances[wallet] - rewards,
        debt_minor=balances[debt],
        now=now,
    )


@dataclass(frozen=True)
class _RequestedPayout(accounting.Reservation):
    batch_id: UUID | None


_LOCK_OWN_PAYOUT = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status, batch_id FROM payout_transfer_intents
        WHERE id = :payout_id AND user_id = :user_id FOR NO KEY UPDATE
        """
    ),
    row=_RequestedPayout,
)


def cancel_request(session: Session, *, payout_id: UUID, caller: Caller, now: datetime) -> PayoutView:
    """Cancel the caller's payout that is not in a batch, and return the amount to the balance.

    :raises NotFoundError: the caller has no such payout
    :raises PayoutNotCancellableError: the payout is in a batch or has a final status
    """
    row = found(
        _LOCK_OWN_PAYOUT.first(session, payout_id=payout_id, user_id=caller.id), texts.PAYOUT_NOT_FOUND
    )
    if row.status != states.PENDING or row.batch_id is not None:
        raise PayoutNotCancellableError(
            texts.PAYOUT_IN_BATCH_NOT_CANCELLABLE
            if row.status == states.PENDING
            else texts.PAYOUT_NOT_CANCELLABLE.format(status=row.status)
        )
    accounting.cancel_reservations(session, payouts=[row], now=now)
    return payout_history.show_payout(session, payout_id=payout_id)


def _reserve_request(
    session: Session,
    payee: accounting.Payee,
    amount_minor: int,
    available_minor: int,
    *,
    debt_minor: int,
    held_minor: int = 0,
    now: datetime,
) -> PayoutView:
    """Reserve a requested amount. The caller must have locked the balances."""
    if amount_minor > available_minor:
        unavailable = _describe_unavailable_amounts(session, payee, debt_minor, held_minor)
        raise InsufficientBalanceError(
            " ".join((_describe_available(available_minor), *unavailable)),
            invalid_params=[_amount_too_large(available_minor)],
        )
    minimum = minimum_payout(session)
    if amount_minor < minimum:
        raise PayoutBelowMinimumError.of(
            "amountMinor", f"Must be at least {format_naira(minimum)}, the minimum payout."
        )
    account = find_current_account(session, user_id=payee.user_id)
    if account is None:
        raise LookupError("the payee has no bank account")
    result = accounting.reserve_payouts(
        session,
        requests=[accounting.PayoutRequest(payee, account.id, amount_minor)],
        batch_id=None,
        minimum_minor=minimum,
        requested_by_payee=True,
        now=now,
    )
    if not result.reservations:
        raise PendingPayoutExistsError(texts.PENDING_PAYOUT_EXISTS)
    return payout_history.show_payout(session, payout_id=result.reservations[0].id)


def _ensure_not_on_hold(session: Session, holds: tuple[Hold, ...]) -> None:
    holds = include_platform_halt(session, holds)
    if holds:
        raise PayoutsOnHoldError(
            " ".join(hold.detail for hold in holds),
            extensions={
                "holds": [
                    {"reason": hold.reason, "until": iso(hold.until) if hold.until else None}
                    for hold in holds
                ]
            },
        )


def _describe_unavailable_amounts(
    session: Session, payee: accounting.Payee, debt_minor: int, held_minor: int
) -> list[str]:
    """Describe the payee's amounts that cannot be paid out, apart from escrow."""
    in_transit = sum_payouts_in_transit(session, user_id=payee.user_id, vendor_id=payee.vendor_id)
    return _describe_amounts(
        (in_transit.waiting_minor, texts.UNAVAILABLE_PENDING),
        (debt_minor, texts.UNAVAILABLE_OWED),
        (held_minor, texts.UNAVAILABLE_APPEAL_PERIOD),
    )


def _describe_available(available_minor: int) -> str:
    return texts.WITHDRAWAL_TOO_LARGE.format(available=format_naira(available_minor))


def _describe_amounts(*parts: tuple[int, str]) -> list[str]:
    return [sentence.format(amount=format_naira(minor)) for minor, sentence in parts if minor]


def _amount_too_large(available_minor: int) -> InvalidParam:
    return InvalidParam("amountMinor", f"Must not exceed {format_naira(available_minor)}.")
