"""Holds: reasons that block a payee's payouts, each with the end if known."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.payouts import texts
from marketplace.payouts.accounting import PayeePayout, Payout
from marketplace.platform.halts import are_payouts_halted

# Leaves the owner of a hijacked account time to react: current and former contacts are notified of a change.
ACCOUNT_HOLD = timedelta(hours=24)

NO_BANK_ACCOUNT = "no_bank_account"
BANK_ACCOUNT_CHANGED = "bank_account_changed"
ACCOUNT_RESTRICTED = "account_restricted"
ACCOUNT_SUSPENDED = "account_suspended"
STORE_SUSPENDED = "store_suspended"
HOLD_REASONS = (NO_BANK_ACCOUNT, BANK_ACCOUNT_CHANGED, ACCOUNT_RESTRICTED, ACCOUNT_SUSPENDED, STORE_SUSPENDED)
# A halt of all payouts, shown beside a payee's own holds.
PAYOUTS_HALTED = "payouts_halted"
ALL_HOLD_REASONS = (*HOLD_REASONS, PAYOUTS_HALTED)
# A payment may only go to the bank account that officers approved.
ACCOUNT_REPLACED = "account_replaced"
# Texts for payees, by reason.
_REMEDIES = {
    NO_BANK_ACCOUNT: texts.HOLD_NO_BANK_ACCOUNT,
    BANK_ACCOUNT_CHANGED: texts.HOLD_BANK_ACCOUNT_CHANGED,
    ACCOUNT_RESTRICTED: texts.HOLD_ACCOUNT_RESTRICTED,
    ACCOUNT_SUSPENDED: texts.HOLD_ACCOUNT_SUSPENDED,
    STORE_SUSPENDED: texts.HOLD_STORE_SUSPENDED,
    PAYOUTS_HALTED: texts.HOLD_PAYOUTS_HALTED,
}


@dataclass(frozen=True)
class Hold:
    """A reason that blocks payouts. Without ``until`` the hold has no end date."""

    reason: str
    until: datetime | None = None

    @property
    def detail(self) -> str:
        """The text for the payee, for a reason of ``ALL_HOLD_REASONS``: the reason and the next step."""
        return _REMEDIES[self.reason]


@dataclass(frozen=True)
class WaitingPayout(PayeePayout):
    """A payout to send, and whether the bank account was replaced after the approval."""

    account_replaced: bool


_COLUMNS = """p.account_status, p.status_code, a.created_at AS account_since
    FROM {source} JOIN profiles p ON p.id = {person}
        LEFT JOIN payout_accounts a ON a.user_id = p.id AND a.replaced_at IS NULL"""
_SELECT_VENDORS = Statement(
    text(
        # A store that is suspended with the owner adds no hold to those of the account.
        "SELECT v.id, CASE WHEN NOT v.suspended_with_owner THEN v.status END AS store_status, "
        + _COLUMNS.format(source="vendor_profiles v", person="v.user_id")
        + " WHERE v.id = ANY(:ids)"
    )
)


def find_vendor_holds(
    session: Session, *, vendor_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Find the holds of stores' payouts in one query, apart from a halt of all payouts.

    :return: the holds by store id, for existing stores; an empty tuple allows payouts
    """
    return {
        row["id"]: _derive_holds(row, now=now) for row in _SELECT_VENDORS.all(session, ids=list(vendor_ids))
    }


_SELECT_USERS = Statement(
    text(
        "SELECT u.id, NULL AS store_status, "
        + _COLUMNS.format(source="profiles u", person="u.id")
        + " WHERE u.id = ANY(:ids)"
    )
)


def find_wallet_holds(
    session: Session, *, user_ids: Collection[UUID], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Find the holds of payouts from wallets in one query, apart from a halt of all payouts.

    :return: the holds by user id, for existing users; an empty tuple allows payouts
    """
    return {row["id"]: _derive_holds(row, now=now) for row in _SELECT_USERS.all(session, ids=list(user_ids))}


def find_payout_holds(
    session: Session, *, payouts: Sequence[PayeePayout], now: datetime
) -> dict[UUID, tuple[Hold, ...]]:
    """Find the holds of payouts by payout id, in two queries."""
    vendor_ids = [payout.vendor_id for payout in payouts if payout.vendor_id]
    user_ids = [payout.user_id for payout in payouts if not payout.vendor_id]
    vendor_holds = find_vendor_holds(session, vendor_ids=vendor_ids, now=now) if vendor_ids else {}
    wallet_holds = find_wallet_holds(session, user_ids=user_ids, now=now) if user_ids else {}
    return {
        payout.id: vendor_holds[payout.vendor_id] if payout.vendor_id else wallet_holds[payout.user_id]
        for payout in payouts
    }


def send_blockers(
    session: Session, *, payouts: Sequence[WaitingPayout | Payout], now: datetime
) -> dict[UUID, tuple[str, ...]]:
    """Find the reasons that block approved payouts, apart from a halt of all payouts.

    :return: ``account_replaced`` and ``HOLD_REASONS`` by payout id; payouts that may be sent are left out
    """
    holds = find_payout_holds(session, payouts=payouts, now=now)
    blockers = {
        payout.id: (
            *((ACCOUNT_REPLACED,) if payout.account_replaced else ()),
            *(hold.reason for hold in holds[payout.id]),
        )
        for payout in payouts
    }
    return {payout_id: reasons for payout_id, reasons in blockers.items() if reasons}


def include_platform_halt(session: Session, holds: tuple[Hold, ...]) -> tuple[Hold, ...]:
    """Add the halt of all payouts, if any, to a payee's holds."""
    return (*holds, Hold(PAYOUTS_HALTED)) if are_payouts_halted(session) else holds


def account_held_until(since: datetime) -> datetime:
    """Return the end of the hold of a bank account that was added at ``since``."""
    return since + ACCOUNT_HOLD


def _derive_holds(row: dict[str, Any], *, now: datetime) -> tuple[Hold, ...]:
    holds = []
    if row["account_since"] is None:
        holds.append(Hold(NO_BANK_ACCOUNT))
    elif account_held_until(row["account_since"]) > now:
        holds.append(Hold(BANK_ACCOUNT_CHANGED, account_held_until(row["account_since"])))
    if row["account_status"] == "suspended":
        holds.append(Hold(ACCOUNT_SUSPENDED))
    # A person who deletes the account is paid out first, although the account is restricted meanwhile.
    elif row["account_status"] == "restricted" and row["status_code"] != "deletion_pending":
        holds.append(Hold(ACCOUNT_RESTRICTED))
    if row["store_status"] == "suspended":
        holds.append(Hold(STORE_SUSPENDED))
    return tuple(holds)
