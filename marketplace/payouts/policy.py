"""Who may be paid: what holds somebody's payouts back, and until when."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement

# Whoever took over an account and had the money sent elsewhere is noticed within it: both contacts are told.
ACCOUNT_HOLD = timedelta(hours=24)

NO_BANK_ACCOUNT = "no_bank_account"
BANK_ACCOUNT_CHANGED = "bank_account_changed"
ACCOUNT_RESTRICTED = "account_restricted"
ACCOUNT_SUSPENDED = "account_suspended"
STORE_SUSPENDED = "store_suspended"
HOLD_REASONS = (NO_BANK_ACCOUNT, BANK_ACCOUNT_CHANGED, ACCOUNT_RESTRICTED, ACCOUNT_SUSPENDED, STORE_SUSPENDED)
# Nobody's own, but shown beside them.
PAYOUTS_HALTED = "payouts_halted"
SHOWN_REASONS = (*HOLD_REASONS, PAYOUTS_HALTED)
# What the payee can do about each, in their words.
_WHAT_TO_DO = {
    NO_BANK_ACCOUNT: "There is no bank account to pay to. Give one.",
    BANK_ACCOUNT_CHANGED: "The bank account is new, so nothing is sent there for 24 hours. Wait until then.",
    ACCOUNT_RESTRICTED: "Your account is restricted. Contact support.",
    ACCOUNT_SUSPENDED: "Your account is suspended. Contact support.",
    STORE_SUSPENDED: "Your store is suspended. Contact support.",
    PAYOUTS_HALTED: "All payouts are halted while we look into something. Your money is safe; wait.",
}
# Whoever leaves is paid first: their account is restricted meanwhile.
_LEAVING = "deletion_pending"

_COLUMNS = """p.account_status, p.status_reason, a.created_at AS account_since
    FROM {asked} JOIN profiles p ON p.id = {person}
        LEFT JOIN payout_accounts a ON a.user_id = p.id AND a.replaced_at IS NULL"""
_OF_VENDORS = Statement(
    text(
        "SELECT v.id, v.status AS store_status, "
        + _COLUMNS.format(asked="vendor_profiles v", person="v.user_id")
        + " WHERE v.id = ANY(:ids)"
    )
)
_OF_PEOPLE = Statement(
    text(
        "SELECT u.id, NULL AS store_status, "
        + _COLUMNS.format(asked="profiles u", person="u.id")
        + " WHERE u.id = ANY(:ids)"
    )
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Why somebody is not paid: one of ``HOLD_REASONS``; without ``until``, until something is done about it."""

    reason: str
    until: datetime | None = None


def holds_of(
    session: Session, *, vendor_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """This function will tell what holds vendors' payouts back, all of them in one query.

    A halt of all payouts is none of these: it is nobody's own.

    :param vendor_ids: stores' ids
    :param now: the time of the request or of the run
    :return: the holds of each store that exists; none of a store that may be paid
    """
    rows = _OF_VENDORS.all(session, ids=list(vendor_ids))
    return {row["id"]: _holds_in(row, now=now) for row in rows}


def holds_of_people(
    session: Session, *, user_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """This function will tell what holds payouts from people's wallets back, all of them in one query.

    :param user_ids: whose wallets
    :param now: the time of the request or of the run
    :return: the holds of each person that exists; none of one who may be paid
    """
    rows = _OF_PEOPLE.all(session, ids=list(user_ids))
    return {row["id"]: _holds_in(row, now=now) for row in rows}


def shown(holds: Sequence[Hold]) -> list[dict[str, Any]]:
    """This function will give holds as the payee is shown them, each with what can be done about it."""
    return [{"reason": one.reason, "until": one.until, "detail": _WHAT_TO_DO[one.reason]} for one in holds]


def account_held_until(since: datetime) -> datetime:
    """This function will tell until when a bank account that was given at a time holds payouts."""
    return since + ACCOUNT_HOLD


def _holds_in(row: dict[str, Any], *, now: datetime) -> tuple[Hold, ...]:
    holds = []
    if row["account_since"] is None:
        holds.append(Hold(NO_BANK_ACCOUNT))
    elif account_held_until(row["account_since"]) > now:
        holds.append(Hold(BANK_ACCOUNT_CHANGED, account_held_until(row["account_since"])))
    if row["account_status"] == "suspended":
        holds.append(Hold(ACCOUNT_SUSPENDED))
    elif row["account_status"] == "restricted" and row["status_reason"] != _LEAVING:
        holds.append(Hold(ACCOUNT_RESTRICTED))
    if row["store_status"] == "suspended":
        holds.append(Hold(STORE_SUSPENDED))
    return tuple(holds)
