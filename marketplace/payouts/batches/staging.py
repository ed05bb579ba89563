"""Staging: what vendors can be paid becomes a batch, and what people have asked for joins it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.permissions import MANAGE_FINANCES
from marketplace.identity.queries import list_officers_with_permission
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, InvalidParam, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.kernel.pluralize import format_count
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.accounting.reservations import Payee, PayoutRequest, ReservationResult
from marketplace.payouts.batches.batch import compute_fingerprint
from marketplace.payouts.payees.holds import HOLD_REASONS, Hold, find_payout_holds, find_vendor_holds
from marketplace.platform import features
from marketplace.platform.halts import are_payouts_halted
from marketplace.platform.queries import fetch_platform_settings

# A batch that officers can still look through, and that is staged well within a request's time.
PAYEES_LIMIT = 10_000
SKIPPED_SHOWN_LIMIT = 100

NOTHING_TO_PAY = "nothing_to_pay"
SKIP_REASONS = (NOTHING_TO_PAY, reservations.BELOW_MINIMUM, reservations.ALREADY_PENDING, *HOLD_REASONS)

_HAS_PENDING_PAYOUT = """
    EXISTS (SELECT FROM payout_transfer_intents i
        WHERE i.user_id = v.user_id AND i.vendor_id = v.id AND i.status = 'pending')
"""
_SELECT_VENDORS = f"""
    SELECT v.id AS vendor_id, v.user_id, a.id AS account_id, coalesce(b.balance_minor, 0) AS balance_minor,
        {_HAS_PENDING_PAYOUT} AS waits
    FROM vendor_profiles v
        LEFT JOIN ledger_accounts b ON b.kind = 'vendor_payable' AND b.owner_id = v.id
        LEFT JOIN payout_accounts a ON a.user_id = v.user_id AND a.replaced_at IS NULL
"""
_SELECT_NAMED_VENDORS = Statement(text(f"{_SELECT_VENDORS} WHERE v.id = ANY(:vendor_ids) ORDER BY v.id"))
# What is left over by the bound is the next batch's: those that are in this one are out of the way then. Those with
# a debt are there for less, since that is taken out of what they would get.
_SELECT_PAYABLE_VENDORS = Statement(
    text(
        f"""
        {_SELECT_VENDORS}
        WHERE b.balance_minor > 0 AND v.user_id IS DISTINCT FROM CAST(:officer_id AS uuid)
            AND (b.balance_minor >= :minimum_minor OR EXISTS (SELECT FROM ledger_accounts d
                WHERE d.kind = 'vendor_receivable' AND d.owner_id = v.id AND d.balance_minor > 0))
            AND NOT {_HAS_PENDING_PAYOUT}
        ORDER BY (a.id IS NULL), v.id LIMIT :limit
        """
    )
)
# One that is being withdrawn at the moment is not waited for.
_LOCK_PENDING_REQUESTS = Statement(
    text(
        """
        SELECT id, user_id, vendor_id FROM payout_transfer_intents
        WHERE batch_id IS NULL AND status = 'pending' AND user_id IS DISTINCT FROM CAST(:officer_id AS uuid)
            AND (CAST(:vendor_ids AS uuid[]) IS NULL OR vendor_id = ANY(:vendor_ids))
        ORDER BY id LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_ADD_REQUESTS_TO_BATCH = Statement(
    text(
        """
        UPDATE payout_transfer_intents i SET batch_id = :batch_id, account_id = a.id, updated_at = :now
        FROM payout_accounts a
        WHERE i.id = ANY(:ids) AND a.user_id = i.user_id AND a.replaced_at IS NULL
        """
    )
)
# What is left to vendors whose payment was asked for, where it would be enough for another one.
_SELECT_VENDORS_WITH_REMAINDER = Statement(
    text(
        """
        SELECT b.owner_id AS vendor_id FROM ledger_accounts b
            LEFT JOIN ledger_accounts d ON d.kind = 'vendor_receivable' AND d.owner_id = b.owner_id
        WHERE b.kind = 'vendor_payable' AND b.owner_id = ANY(:vendor_ids)
            AND b.balance_minor - coalesce(d.balance_minor, 0) >= :minimum_minor
        ORDER BY b.owner_id LIMIT :limit
        """
    )
)
_INSERT_BATCH = Statement(
    text(
        """
        INSERT INTO payout_batches (status, staged_by, content_hash, created_at, updated_at)
        VALUES (:status, :staged_by, '', :now, :now) RETURNING id
        """
    )
)
_UPDATE_FINGERPRINT = Statement(
    text("UPDATE payout_batches SET content_hash = :content_hash WHERE id = :batch_id")
)
_DELETE_BATCH = Statement(text("DELETE FROM payout_batches WHERE id = :batch_id"))
_SUM_PAYMENTS = Statement(
    text(
        """
        SELECT count(*) AS payments, coalesce(sum(amount_minor), 0)::bigint AS minor
        FROM payout_transfer_intents WHERE batch_id = :batch_id
        """
    )
)


class NothingToStageError(ConflictError):
    """No payee has an amount that can be paid now."""

    reason = "nothing-to-stage"


@dataclass(frozen=True)
class SkippedPayee:
    """A vendor whose money stays where it is, why, and until when if that is known."""

    vendor_id: UUID
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class StagingResult:
    """What came of a staging: the batch, if there is one, what it pays in kobo, and who was left out, and why."""

    batch_id: UUID | None
    payments: int = 0
    amount_minor: int = 0
    collected_minor: int = 0
    skipped: tuple[SkippedPayee, ...] = ()

    def require_batch(self) -> UUID:
        """Give the batch.

        :raises NothingToStageError: there is none
        """
        if self.batch_id is not None:
            return self.batch_id
        sample = [
            {
                "vendorId": str(payee.vendor_id),
                "reason": payee.reason,
                "until": iso(payee.until) if payee.until else None,
            }
            for payee in self.skipped[:SKIPPED_SHOWN_LIMIT]
        ]
        raise NothingToStageError(
            "Nobody can be paid: each has too little that is released, waits for a batch already, or is on hold.",
            extensions={"leftOut": sample},
        )


def stage_batch(
    session: Session,
    *,
    act: Act,
    vendor_ids: Sequence[UUID] | None = None,
) -> StagingResult:
    """Stage what can be paid into a batch, each payment reserved from its balance in the books.

    Paid is what a vendor has of released orders, less what the vendor owes, from the least payout on; besides, what
    people have asked for. Left out is who is on hold: see ``holds``. So is an officer's own money: who stages is the
    first of the two who approve.

    :param vendor_ids: whom alone to pay; none: all
    :raises ValidationError: there is no such vendor
    :raises ConflictOfInterestError: the officer names a store of their own
    """
    minimum = int(fetch_platform_settings(session)["minimum_payout_minor"])
    rows, skipped = _select_candidates(session, act.user_id, vendor_ids, minimum_minor=minimum, now=act.now)
    batch = _INSERT_BATCH.one(session, status=states.BATCH.initial, staged_by=act.user_id, now=act.now)
    batch_id: UUID = batch["id"]
    joined_vendor_ids = _add_requests_to_batch(session, batch_id, act.user_id, vendor_ids, now=act.now)
    requests = [PayoutRequest(Payee(row["user_id"], row["vendor_id"]), row["account_id"]) for row in rows]
    result = reservations.reserve_payouts(
        session,
        requests=requests[: PAYEES_LIMIT - len(joined_vendor_ids)],
        batch_id=batch_id,
        minimum_minor=minimum,
        now=act.now,
    )
    skipped = [
        payee for payee in (*skipped, *_list_unreserved(result)) if payee.vendor_id not in joined_vendor_ids
    ]
    skipped += _list_vendors_with_remainder(session, joined_vendor_ids, minimum_minor=minimum)
    collected_minor = sum(result.collected_minor.values())
    if not joined_vendor_ids and not result.reservations:
        _DELETE_BATCH.run(session, batch_id=batch_id)
        return StagingResult(None, collected_minor=collected_minor, skipped=tuple(skipped))
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    _UPDATE_FINGERPRINT.run(session, batch_id=batch_id, content_hash=fingerprint)
    totals = _SUM_PAYMENTS.one(session, batch_id=batch_id)
    record_audit_entry(
        session,
        act=act,
        action="payout_batch.stage",
        target_type="payout_batch",
        target_id=str(batch_id),
        after={
            "status": states.STAGED,
            "payments": totals["payments"],
            "amountMinor": totals["minor"],
            "contentHash": fingerprint,
        },
    )
    _notify_officers(session, batch_id, act.user_id, totals, now=act.now)
    return StagingResult(batch_id, totals["payments"], totals["minor"], collected_minor, tuple(skipped))


def stage_manually(
    session: Session,
    *,
    act: Act,
    vendor_ids: Sequence[UUID] | None = None,
) -> StagingResult:
    """Stage a batch for an officer, like ``stage_batch``, while payouts are halted too.

    What it reserves is not sent then.

    :raises NothingToStageError: nobody can be paid; nothing was changed
    """
    result = stage_batch(session, act=act, vendor_ids=vendor_ids)
    result.require_batch()
    return result


def stage_on_schedule(session: Session, *, now: datetime) -> StagingResult:
    """Stage all that can be paid, unless payouts are halted, or the schedule is switched off."""
    scheduled = features.is_feature_on(fetch_platform_settings(session), features.SCHEDULED_PAYOUTS, now=now)
    if are_payouts_halted(session) or not scheduled:
        return StagingResult(None)
    return stage_batch(session, act=Act("schedule", now))


def _select_candidates(
    session: Session,
    officer_id: UUID | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    minimum_minor: int,
    now: datetime,
) -> tuple[list[dict[str, Any]], list[SkippedPayee]]:
    """Give who may be paid, and who may not and why."""
    if vendor_ids is None:
        candidates = _SELECT_PAYABLE_VENDORS.all(
            session,
            officer_id=officer_id,
            minimum_minor=minimum_minor,
            limit=PAYEES_LIMIT,
        )
    else:
        candidates = _select_named_vendors(session, officer_id, vendor_ids)
    holds = find_vendor_holds(session, vendor_ids=[row["vendor_id"] for row in candidates], now=now)
    skipped = []
    rows = []
    for row in candidates:
        skip_reason = _find_skip_reason(row, holds[row["vendor_id"]])
        if skip_reason is None:
            rows.append(row)
        else:
            skipped.append(SkippedPayee(row["vendor_id"], skip_reason.reason, skip_reason.until))
    return rows, skipped


def _select_named_vendors(
    session: Session, officer_id: UUID | None, vendor_ids: Sequence[UUID]
) -> list[dict[str, Any]]:
    vendors = _SELECT_NAMED_VENDORS.all(session, vendor_ids=list(vendor_ids))
    known_ids = {row["vendor_id"] for row in vendors}
    invalid_params = [
        InvalidParam(f"vendorIds[{index}]", "There is no such vendor.")
        for index, vendor_id in enumerate(vendor_ids)
        if vendor_id not in known_ids
    ]
    if invalid_params:
        raise ValidationError("vendorIds: There is no such vendor.", invalid_params=invalid_params)
    if officer_id is not None and any(row["user_id"] == officer_id for row in vendors):
        raise ConflictOfInterestError("You would be paid by this: another officer has to stage it.")
    return vendors


def _find_skip_reason(row: dict[str, Any], holds: tuple[Hold, ...]) -> Hold | None:
    """Tell why nothing more is reserved for a vendor, if that is known before the balances are locked."""
    if not row["balance_minor"] and not row["waits"]:
        return Hold(NOTHING_TO_PAY)
    if holds:
        return holds[0]
    # All of it is in a payment that waits.
    return None if row["balance_minor"] else Hold(reservations.ALREADY_PENDING)


def _add_requests_to_batch(
    session: Session,
    batch_id: UUID,
    officer_id: UUID | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    now: datetime,
) -> list[UUID | None]:
    """Have what was asked for, and waits, join the batch; tell whose it is: a vendor's, or (none) of a wallet."""
    rows = _LOCK_PENDING_REQUESTS.all(
        session,
        officer_id=officer_id,
        vendor_ids=None if vendor_ids is None else list(vendor_ids),
        limit=PAYEES_LIMIT,
    )
    if not rows:
        return []
    holds = find_payout_holds(session, payouts=rows, now=now)
    ready = [row for row in rows if not holds[row["id"]]]
    _ADD_REQUESTS_TO_BATCH.run(session, batch_id=batch_id, ids=[row["id"] for row in ready], now=now)
    return [row["vendor_id"] for row in ready]


def _list_unreserved(result: ReservationResult) -> list[SkippedPayee]:
    return [
        SkippedPayee(payee.vendor_id, reason)
        for payee, reason in result.skipped.items()
        if payee.vendor_id is not None
    ]


def _list_vendors_with_remainder(
    session: Session, joined_vendor_ids: Sequence[UUID | None], *, minimum_minor: int
) -> list[SkippedPayee]:
    """Tell of vendors whose rest waits for the payment that they had asked for; as many as are shown."""
    vendor_ids = [vendor_id for vendor_id in joined_vendor_ids if vendor_id is not None]
    rows = _SELECT_VENDORS_WITH_REMAINDER.all(
        session, vendor_ids=vendor_ids, minimum_minor=max(minimum_minor, 1), limit=SKIPPED_SHOWN_LIMIT
    )
    return [SkippedPayee(row["vendor_id"], reservations.ALREADY_PENDING) for row in rows]


def _notify_officers(
    session: Session, batch_id: UUID, stager_id: UUID | None, totals: dict[str, Any], *, now: datetime
) -> None:
    """Tell those who can approve it that a batch waits."""
    body = f"{format_count(totals['payments'], 'payment')}, {format_naira(totals['minor'])} in all."
    body += " Two officers approve it first."
    notifications = [
        NewNotification(
            officer_id,
            "payout_batch_staged",
            "A batch of payouts waits for approval",
            body,
            f"/payouts/batches/{batch_id}",
            f"payout_batch.staged:{batch_id}",
        )
        for officer_id in list_officers_with_permission(
            session, permission=MANAGE_FINANCES, excluded_officer_id=stager_id
        )
    ]
    notify_all(session, notifications=notifications, now=now)
