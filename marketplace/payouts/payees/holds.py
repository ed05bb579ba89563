"""Who may be paid: what holds somebody's payouts back, and until when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.platform.halts import are_payouts_halted

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
ALL_HOLD_REASONS = (*HOLD_REASONS, PAYOUTS_HALTED)
# A payment goes to the account that officers approved it for, or nowhere.
ACCOUNT_REPLACED = "account_replaced"
# What the payee can do about each, in their words.
_REMEDIES = {
    NO_BANK_ACCOUNT: "There is no bank account to pay to. Give one.",
    BANK_ACCOUNT_CHANGED: "The bank account is new, so nothing is sent there for 24 hours. Wait until then.",
    ACCOUNT_RESTRICTED: "Your account is restricted. Contact support.",
    ACCOUNT_SUSPENDED: "Your account is suspended. Contact support.",
    STORE_SUSPENDED: "Your store is suspended. Contact support.",
    PAYOUTS_HALTED: "All payouts are halted while we look into something. Your money is safe; wait.",
}
# Whoever leaves is paid first: their account is restricted meanwhile.
_DELETION_PENDING = "deletion_pending"

_COLUMNS = """p.account_status, p.status_reason, a.created_at AS account_since
    FROM {source} JOIN profiles p ON p.id = {person}
        LEFT JOIN payout_accounts a ON a.user_id = p.id AND a.replaced_at IS NULL"""
_SELECT_VENDORS = Statement(
    text(
        "SELECT v.id, v.status AS store_status, "
        + _COLUMNS.format(source="vendor_profiles v", person="v.user_id")
        + " WHERE v.id = ANY(:ids)"
    )
)
_SELECT_USERS = Statement(
    text(
        "SELECT u.id, NULL AS store_status, "
        + _COLUMNS.format(source="profiles u", person="u.id")
        + " WHERE u.id = ANY(:ids)"
    )
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Why somebody is not paid: one of ``HOLD_REASONS``; without ``until``, until something is done about it."""

    reason: str
    until: datetime | None = None


def find_vendor_holds(
    session: Session, *, vendor_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Tell what holds vendors' payouts back, all of them in one query.

    A halt of all payouts is none of these: it is nobody's own.

    :param vendor_ids: stores' ids
    :param now: the time of the request or of the run
    :return: the holds of each store that exists; none of a store that may be paid
    """
    rows = _SELECT_VENDORS.all(session, ids=list(vendor_ids))
    return {row["id"]: _derive_holds(row, now=now) for row in rows}


def find_wallet_holds(
    session: Session, *, user_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Tell what holds payouts from people's wallets back, all of them in one query.

    :param user_ids: whose wallets
    :param now: the time of the request or of the run
    :return: the holds of each person that exists; none of one who may be paid
    """
    rows = _SELECT_USERS.all(session, ids=list(user_ids))
    return {row["id"]: _derive_holds(row, now=now) for row in rows}


def find_payout_holds(
    session: Session, *, payouts: Sequence[Mapping[str, Any]], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Tell what holds payouts back, by their ids, in two queries.

    :param payouts: each with its ``id``, the payee's ``user_id``, and ``vendor_id``, which is empty out of a wallet
    :param now: the time of the request or of the run
    """
    vendor_ids = [row["vendor_id"] for row in payouts if row["vendor_id"]]
    user_ids = [row["user_id"] for row in payouts if not row["vendor_id"]]
    vendor_holds = find_vendor_holds(session, vendor_ids=vendor_ids, now=now) if vendor_ids else {}
    wallet_holds = find_wallet_holds(session, user_ids=user_ids, now=now) if user_ids else {}
    return {
        row["id"]: vendor_holds[row["vendor_id"]] if row["vendor_id"] else wallet_holds[row["user_id"]]
        for row in payouts
    }


def send_blockers(
    session: Session, *, payouts: Sequence[Mapping[str, Any]], now: datetime
) -> dict[UUID, tuple[str, ...]]:
    """Tell why payouts are not sent now, approved as they are: what is not told of is sent.

    A halt of all payouts is none of the reasons.

    :param payouts: as of ``find_payout_holds``, each with whether its account was replaced since (``account_replaced``)
    :param now: when they would be sent
    :return: ``account_replaced`` and ``HOLD_REASONS``, by the payouts' ids
    """
    holds = find_payout_holds(session, payouts=payouts, now=now)
    blockers = {
        row["id"]: (
            *((ACCOUNT_REPLACED,) if row["account_replaced"] else ()),
            *(hold.reason for hold in holds[row["id"]]),
        )
        for row in payouts
    }
    return {payout_id: reasons for payout_id, reasons in blockers.items() if reasons}


def include_platform_halt(session: Session, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
    """Add to somebody's holds the one that is everybody's, if there is one."""
    return (*holds, Hold(PAYOUTS_HALTED)) if are_payouts_halted(session) else holds


def serialize_holds(holds: Sequence[Hold]) -> list[dict[str, Any]]:
    """Give holds as the payee is shown them, each with what can be done about it."""
    return [{"reason": hold.reason, "until": hold.until, "detail": _REMEDIES[hold.reason]} for hold in holds]


def account_held_until(since: datetime) -> datetime:
    """Tell until when a bank account that was given at a time holds payouts."""
    return since + ACCOUNT_HOLD


def _derive_holds(row: dict[str, Any], *, now: datetime) -> tuple[Hold, ...]:
    holds = []
    if row["account_since"] is None:
        holds.append(Hold(NO_BANK_ACCOUNT))
    elif account_held_until(row["account_since"]) > now:
        holds.append(Hold(BANK_ACCOUNT_CHANGED, account_held_until(row["account_since"])))
    if row["account_status"] == "suspended":
        holds.append(Hold(ACCOUNT_SUSPENDED))
    elif row["account_status"] == "restricted" and row["status_reason"] != _DELETION_PENDING:
        holds.append(Hold(ACCOUNT_RESTRICTED))
    if row["store_status"] == "suspended":
        holds.append(Hold(STORE_SUSPENDED))
    return tuple(holds)
