"""Staging: what vendors can be paid becomes a batch, and what people have asked for joins it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller, officers_with
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, ForbiddenError, InvalidParam, ValidationError
from marketplace.kernel.money import naira_text
from marketplace.kernel.pluralize import counted
from marketplace.notifications.operations import News, notify_all
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.accounting.reservations import Claims, Payee, Wish
from marketplace.payouts.batches.fingerprint import content_hash
from marketplace.payouts.payees.holds import HOLD_REASONS, Hold, holds_of, holds_of_payouts
from marketplace.platform import features
from marketplace.platform.halts import payouts_halted
from marketplace.platform.queries import platform_settings

# A batch that officers can still look through, and that is staged well within a request's time.
MOST_PAYEES = 10_000
_APPROVES = "canManageFinances"
LEFT_OUT_SHOWN = 100
SCHEDULE = AuditActor("schedule")

NO_MONEY = "nothing_to_pay"
REASONS = (NO_MONEY, reservations.BELOW_MINIMUM, reservations.WAITING, *HOLD_REASONS)

_WAITING = """
    EXISTS (SELECT FROM payout_transfer_intents i
        WHERE i.user_id = v.user_id AND i.vendor_id = v.id AND i.status = 'pending')
"""
_PAYEES = f"""
    SELECT v.id AS vendor_id, v.user_id, a.id AS account_id, coalesce(b.balance_minor, 0) AS balance_minor,
        {_WAITING} AS waits
    FROM vendor_profiles v
        LEFT JOIN ledger_accounts b ON b.kind = 'vendor_payable' AND b.owner_id = v.id
        LEFT JOIN payout_accounts a ON a.user_id = v.user_id AND a.replaced_at IS NULL
"""  # noqa: S608 - our own text
_NAMED = Statement(text(f"{_PAYEES} WHERE v.id = ANY(:vendor_ids) ORDER BY v.id"))
# What is left over by the bound is the next batch's: those that are in this one are out of the way then. Those with
# a debt are there for less, since that is taken out of what they would get.
_ALL = Statement(
    text(
        f"""
        {_PAYEES}
        WHERE b.balance_minor > 0 AND v.user_id IS DISTINCT FROM CAST(:officer_id AS uuid)
            AND (b.balance_minor >= :minimum_minor OR EXISTS (SELECT FROM ledger_accounts d
                WHERE d.kind = 'vendor_receivable' AND d.owner_id = v.id AND d.balance_minor > 0))
            AND NOT {_WAITING}
        ORDER BY (a.id IS NULL), v.id LIMIT :most
        """
    )
)
# One that is being withdrawn at the moment is not waited for.
_JOINABLE = Statement(
    text(
        """
        SELECT id, user_id, vendor_id FROM payout_transfer_intents
        WHERE batch_id IS NULL AND status = 'pending' AND user_id IS DISTINCT FROM CAST(:officer_id AS uuid)
            AND (CAST(:vendor_ids AS uuid[]) IS NULL OR vendor_id = ANY(:vendor_ids))
        ORDER BY id LIMIT :most
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_JOIN = Statement(
    text(
        """
        UPDATE payout_transfer_intents i SET batch_id = :batch_id, account_id = a.id, updated_at = :now
        FROM payout_accounts a
        WHERE i.id = ANY(:ids) AND a.user_id = i.user_id AND a.replaced_at IS NULL
        """
    )
)
# What is left to vendors whose payment was asked for, where it would be enough for another one.
_REST = Statement(
    text(
        """
        SELECT b.owner_id AS vendor_id FROM ledger_accounts b
            LEFT JOIN ledger_accounts d ON d.kind = 'vendor_receivable' AND d.owner_id = b.owner_id
        WHERE b.kind = 'vendor_payable' AND b.owner_id = ANY(:vendor_ids)
            AND b.balance_minor - coalesce(d.balance_minor, 0) >= :least_minor
        ORDER BY b.owner_id LIMIT :most
        """
    )
)
_OPEN = Statement(
    text(
        """
        INSERT INTO payout_batches (status, staged_by, content_hash, created_at, updated_at)
        VALUES (:status, :staged_by, '', :now, :now) RETURNING id
        """
    )
)
_SEAL = Statement(text("UPDATE payout_batches SET content_hash = :content_hash WHERE id = :batch_id"))
_DROP = Statement(text("DELETE FROM payout_batches WHERE id = :batch_id"))
_SUMS = Statement(
    text(
        """
        SELECT count(*) AS payments, coalesce(sum(amount_minor), 0)::bigint AS minor
        FROM payout_transfer_intents WHERE batch_id = :batch_id
        """
    )
)


class NothingToPayError(ConflictError):
    """Nobody can be paid anything now."""


@dataclass(frozen=True)
class LeftOut:
    """A vendor whose money stays where it is, why, and until when if that is known."""

    vendor_id: UUID
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class Staged:
    """What came of a staging: the batch, if there is one, what it pays in kobo, and who was left out, and why."""

    batch_id: UUID | None
    payments: int = 0
    amount_minor: int = 0
    collected_minor: int = 0
    left_out: tuple[LeftOut, ...] = ()

    def require_batch(self) -> UUID:
        """Give the batch.

        :raises NothingToPayError: there is none
        """
        if self.batch_id is not None:
            return self.batch_id
        shown = [
            {
                "vendorId": str(one.vendor_id),
                "reason": one.reason,
                "until": iso(one.until) if one.until else None,
            }
            for one in self.left_out[:LEFT_OUT_SHOWN]
        ]
        raise NothingToPayError(
            "Nobody can be paid: each has too little that is released, waits for a batch already, or is on hold.",
            extensions={"leftOut": shown},
        )


def stage(
    session: Session,
    *,
    officer: Caller | None,
    actor: AuditActor,
    vendor_ids: Sequence[UUID] | None = None,
    now: datetime,
) -> Staged:
    """Stage what can be paid into a batch, each payment claimed from its balance in the books.

    Paid is what a vendor has of released orders, less what the vendor owes, from the least payout on; besides, what
    people have asked for. Left out is who is on hold: see ``policy``. So is an officer's own money: who stages is the
    first of the two who approve.

    :param officer: who stages it; none: the schedule
    :param actor: the same, for the audit
    :param vendor_ids: whom alone to pay; none: all
    :param now: when
    :raises ValidationError: there is no such vendor
    :raises ForbiddenError: the officer names a store of their own
    """
    minimum = int(platform_settings(session)["minimum_payout_minor"])
    rows, left_out = _candidates(session, officer, vendor_ids, minimum_minor=minimum, now=now)
    opened = _OPEN.one(
        session, status=states.BATCH.initial, staged_by=officer.id if officer else None, now=now
    )
    batch_id: UUID = opened["id"]
    joined = _join(session, batch_id, officer, vendor_ids, now=now)
    wishes = [Wish(Payee(row["user_id"], row["vendor_id"]), row["account_id"]) for row in rows]
    made = reservations.claim(
        session, wishes=wishes[: MOST_PAYEES - len(joined)], batch_id=batch_id, minimum_minor=minimum, now=now
    )
    left_out = [one for one in (*left_out, *_not_claimed(made)) if one.vendor_id not in joined]
    left_out += _left_over(session, joined, minimum_minor=minimum)
    collected = sum(made.collected_minor.values())
    if not joined and not made.made:
        _DROP.run(session, batch_id=batch_id)
        return Staged(None, collected_minor=collected, left_out=tuple(left_out))
    sealed = content_hash(session, batch_id=batch_id)
    _SEAL.run(session, batch_id=batch_id, content_hash=sealed)
    sums = _SUMS.one(session, batch_id=batch_id)
    record(
        session,
        actor=actor,
        action="payout_batch.stage",
        target_type="payout_batch",
        target_id=str(batch_id),
        after={
            "status": states.STAGED,
            "payments": sums["payments"],
            "amountMinor": sums["minor"],
            "contentHash": sealed,
        },
        now=now,
    )
    _tell_officers(session, batch_id, officer, sums, now=now)
    return Staged(batch_id, sums["payments"], sums["minor"], collected, tuple(left_out))


def stage_by_hand(
    session: Session,
    *,
    officer: Caller,
    actor: AuditActor,
    vendor_ids: Sequence[UUID] | None = None,
    now: datetime,
) -> Staged:
    """Stage a batch for an officer, like ``stage``, while payouts are halted too.

    What it claims is not sent then.

    :raises NothingToPayError: nobody can be paid; nothing was changed
    """
    staged = stage(session, officer=officer, actor=actor, vendor_ids=vendor_ids, now=now)
    staged.require_batch()
    return staged


def stage_by_schedule(session: Session, *, now: datetime) -> Staged:
    """Stage all that can be paid, unless payouts are halted, or the schedule is switched off."""
    scheduled = features.is_on(platform_settings(session), features.SCHEDULED_PAYOUTS, now=now)
    if payouts_halted(session) or not scheduled:
        return Staged(None)
    return stage(session, officer=None, actor=SCHEDULE, now=now)


def _candidates(
    session: Session,
    officer: Caller | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    minimum_minor: int,
    now: datetime,
) -> tuple[list[dict[str, Any]], list[LeftOut]]:
    """Give who may be paid, and who may not and why."""
    if vendor_ids is None:
        found = _ALL.all(
            session,
            officer_id=officer.id if officer else None,
            minimum_minor=minimum_minor,
            most=MOST_PAYEES,
        )
    else:
        found = _named(session, officer, vendor_ids)
    holds = holds_of(session, vendor_ids=[row["vendor_id"] for row in found], now=now)
    left_out = []
    rows = []
    for row in found:
        hold = _hold_on(row, holds[row["vendor_id"]])
        if hold is None:
            rows.append(row)
        else:
            left_out.append(LeftOut(row["vendor_id"], hold.reason, hold.until))
    return rows, left_out


def _named(session: Session, officer: Caller | None, vendor_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    found = _NAMED.all(session, vendor_ids=list(vendor_ids))
    known = {row["vendor_id"] for row in found}
    faults = [
        InvalidParam(f"vendorIds[{index}]", "There is no such vendor.")
        for index, vendor_id in enumerate(vendor_ids)
        if vendor_id not in known
    ]
    if faults:
        raise ValidationError("vendorIds: There is no such vendor.", invalid_params=faults)
    if officer is not None and any(row["user_id"] == officer.id for row in found):
        raise ForbiddenError("You would be paid by this: another officer has to stage it.")
    return found


def _hold_on(row: dict[str, Any], holds: tuple[Hold, ...]) -> Hold | None:
    """Tell why nothing more is claimed for a vendor, if that is known before the balances are locked."""
    if not row["balance_minor"] and not row["waits"]:
        return Hold(NO_MONEY)
    if holds:
        return holds[0]
    # All of it is in a payment that waits.
    return None if row["balance_minor"] else Hold(reservations.WAITING)


def _join(
    session: Session,
    batch_id: UUID,
    officer: Caller | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    now: datetime,
) -> list[UUID | None]:
    """Have what was asked for, and waits, join the batch; tell whose it is: a vendor's, or (none) of a wallet."""
    rows = _JOINABLE.all(
        session,
        officer_id=officer.id if officer else None,
        vendor_ids=None if vendor_ids is None else list(vendor_ids),
        most=MOST_PAYEES,
    )
    if not rows:
        return []
    holds = holds_of_payouts(session, payouts=rows, now=now)
    free = [row for row in rows if not holds[row["id"]]]
    _JOIN.run(session, batch_id=batch_id, ids=[row["id"] for row in free], now=now)
    return [row["vendor_id"] for row in free]


def _not_claimed(made: Claims) -> list[LeftOut]:
    return [
        LeftOut(payee.vendor_id, reason)
        for payee, reason in made.left_out.items()
        if payee.vendor_id is not None
    ]


def _left_over(session: Session, joined: Sequence[UUID | None], *, minimum_minor: int) -> list[LeftOut]:
    """Tell of vendors whose rest waits for the payment that they had asked for; as many as are shown."""
    stores = [vendor_id for vendor_id in joined if vendor_id is not None]
    rows = _REST.all(session, vendor_ids=stores, least_minor=max(minimum_minor, 1), most=LEFT_OUT_SHOWN)
    return [LeftOut(row["vendor_id"], reservations.WAITING) for row in rows]


def _tell_officers(
    session: Session, batch_id: UUID, stager: Caller | None, sums: dict[str, Any], *, now: datetime
) -> None:
    """Tell those who can approve it that a batch waits."""
    body = f"{counted(sums['payments'], 'payment')}, {naira_text(sums['minor'])} in all. Two officers approve it first."
    news = [
        News(
            officer_id,
            "payout_batch_staged",
            "A batch of payouts waits for approval",
            body,
            f"/payouts/batches/{batch_id}",
            f"payout_batch.staged:{batch_id}",
        )
        for officer_id in officers_with(session, permission=_APPROVES, besides=stager.id if stager else None)
    ]
    notify_all(session, news=news, now=now)
