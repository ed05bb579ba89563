"""Staging of payout batches: payable vendor balances and requested payouts."""

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
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, InvalidParam, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.payouts import accounting, states, texts
from marketplace.payouts.batches.decisions import compute_fingerprint
from marketplace.payouts.models import PayoutBatch
from marketplace.payouts.payees.balances import minimum_payout
from marketplace.payouts.payees.holds import HOLD_REASONS, Hold, find_payout_holds, find_vendor_holds
from marketplace.platform import features
from marketplace.platform.halts import are_payouts_halted
from marketplace.platform.queries import fetch_platform_settings

# Small enough for officers to review, and for a request to stage before the timeout.
PAYEES_LIMIT = 10_000
SKIPPED_SHOWN_LIMIT = 100

NOTHING_TO_PAY = "nothing_to_pay"
SKIP_REASONS = (
    *(NOTHING_TO_PAY, accounting.BELOW_MINIMUM, accounting.ALREADY_PENDING, accounting.SHARE_ON_HOLD),
    *HOLD_REASONS,
)


class NothingToStageError(ConflictError):
    """No payee has an amount that can be paid now."""

    reason = "nothing-to-stage"


@dataclass(frozen=True)
class SkippedPayee:
    """A vendor without a payment in the batch, with the reason and, if known, the time when the reason ends."""

    vendor_id: UUID
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class StagingResult:
    """The staged batch, if any, with the number of payments, amounts in kobo, and skipped vendors."""

    batch_id: UUID | None
    payments: int = 0
    amount_minor: int = 0
    collected_minor: int = 0
    skipped: tuple[SkippedPayee, ...] = ()

    def require_batch(self) -> UUID:
        """Return the batch's id.

        :raises NothingToStageError: no batch was staged
        """
        if self.batch_id is not None:
            return self.batch_id
        raise NothingToStageError(
            texts.NOTHING_TO_STAGE,
            extensions={
                "leftOut": [
                    {
                        "vendorId": str(payee.vendor_id),
                        "reason": payee.reason,
                        "until": iso(payee.until) if payee.until else None,
                    }
                    for payee in self.skipped[:SKIPPED_SHOWN_LIMIT]
                ]
            },
        )


# Vendors whose balance still reaches the minimum payout after their requested payout was reserved.
_SELECT_VENDORS_WITH_REMAINDER = Statement(
    text(
        """
        SELECT b.owner_id FROM ledger_accounts b
            LEFT JOIN ledger_accounts d ON d.kind = 'vendor_receivable' AND d.owner_id = b.owner_id
        WHERE b.kind = 'vendor_payable' AND b.owner_id = ANY(:vendor_ids)
            AND b.balance_minor - coalesce(d.balance_minor, 0) >= :minimum_minor
        ORDER BY b.owner_id LIMIT :limit
        """
    )
)


def stage_batch(session: Session, *, act: Act, vendor_ids: Sequence[UUID] | None = None) -> StagingResult:
    """Stage a batch of payable balances, and reserve each payment from the payee's balance.

    Vendors receive the balance minus debts, if at least the minimum payout is left. Requested payouts join the batch.
    Payees on hold are skipped (see ``holds``). Staging counts as the first approval, so the officer's own payouts are
    left out.

    :param vendor_ids: only these vendors are paid; all by default
    :raises ValidationError: a vendor does not exist
    :raises ConflictOfInterestError: the named vendors include the officer's own store
    """
    minimum = minimum_payout(session)
    rows, skipped = _select_candidates(session, act.user_id, vendor_ids, minimum_minor=minimum, now=act.now)
    batch = PayoutBatch(
        status=states.BATCH.initial,
        staged_by=act.user_id,
        content_hash="",
        created_at=act.now,
        updated_at=act.now,
    )
    session.add(batch)
    session.flush()
    joined = _add_requests_to_batch(session, batch.id, act.user_id, vendor_ids, now=act.now)
    result = accounting.reserve_payouts(
        session,
        requests=[
            accounting.PayoutRequest(accounting.Payee(row["user_id"], row["vendor_id"]), row["account_id"])
            for row in rows[: PAYEES_LIMIT - len(joined)]
        ],
        batch_id=batch.id,
        minimum_minor=minimum,
        now=act.now,
    )
    joined_vendor_ids = [payout.vendor_id for payout in joined if payout.vendor_id is not None]
    skipped += [
        SkippedPayee(payee.vendor_id, reason)
        for payee, reason in result.skipped.items()
        if payee.vendor_id is not None
    ]
    # A payee has one pending payout at a time, so the rest of the balance waits for a later batch.
    vendors_with_remainder = _SELECT_VENDORS_WITH_REMAINDER.scalars(
        session, vendor_ids=joined_vendor_ids, minimum_minor=max(minimum, 1), limit=SKIPPED_SHOWN_LIMIT
    )
    skipped = [
        *(payee for payee in skipped if payee.vendor_id not in joined_vendor_ids),
        *(SkippedPayee(vendor_id, accounting.ALREADY_PENDING) for vendor_id in vendors_with_remainder),
    ]
    collected_minor = sum(result.collected_minor.values())
    payments = [*joined, *result.reservations]
    if not payments:
        session.delete(batch)
        return StagingResult(None, collected_minor=collected_minor, skipped=tuple(skipped))
    batch.content_hash = compute_fingerprint(session, batch_id=batch.id)
    amount_minor = sum(payout.amount_minor for payout in payments)
    record_audit_entry(
        session,
        act=act,
        action="payout_batch.stage",
        target_type="payout_batch",
        target_id=str(batch.id),
        after={
            "status": states.STAGED,
            "payments": len(payments),
            "amountMinor": amount_minor,
            "contentHash": batch.content_hash,
        },
    )
    staged = StagingResult(batch.id, len(payments), amount_minor, collected_minor, tuple(skipped))
    _notify_officers(session, staged, stager_id=act.user_id, now=act.now)
    return staged


def stage_manually(session: Session, *, act: Act, vendor_ids: Sequence[UUID] | None = None) -> StagingResult:
    """Stage a batch for an officer, like ``stage_batch``. Staging is possible while payouts are halted.

    :raises NothingToStageError: no payee can be paid; the caller's transaction rolls back
    """
    result = stage_batch(session, act=act, vendor_ids=vendor_ids)
    result.require_batch()
    return result


def stage_on_schedule(session: Session, *, now: datetime) -> StagingResult:
    """Stage a batch, unless payouts are halted or the schedule is switched off."""
    scheduled = features.is_feature_on(fetch_platform_settings(session), features.SCHEDULED_PAYOUTS, now=now)
    if are_payouts_halted(session) or not scheduled:
        return StagingResult(None)
    return stage_batch(session, act=Act("schedule", now))


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
# Vendors beyond the limit are in the next batch, since vendors of this batch then have a pending payout. Vendors with a
# debt are selected even below the minimum, so that the debt is collected.
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


def _select_candidates(
    session: Session,
    officer_id: UUID | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    minimum_minor: int,
    now: datetime,
) -> tuple[list[dict[str, Any]], list[SkippedPayee]]:
    """Select the payable vendors, and the other vendors with a reason each."""
    if vendor_ids is None:
        candidates = _SELECT_PAYABLE_VENDORS.all(
            session, officer_id=officer_id, minimum_minor=minimum_minor, limit=PAYEES_LIMIT
        )
    else:
        candidates = _select_named_vendors(session, officer_id, vendor_ids)
    holds = find_vendor_holds(session, vendor_ids=[row["vendor_id"] for row in candidates], now=now)
    reasons = {row["vendor_id"]: _find_skip_reason(row, holds[row["vendor_id"]]) for row in candidates}
    return (
        [row for row in candidates if reasons[row["vendor_id"]] is None],
        [
            SkippedPayee(vendor_id, reason.reason, reason.until)
            for vendor_id, reason in reasons.items()
            if reason is not None
        ],
    )


_SELECT_NAMED_VENDORS = Statement(text(f"{_SELECT_VENDORS} WHERE v.id = ANY(:vendor_ids) ORDER BY v.id"))


def _select_named_vendors(
    session: Session, officer_id: UUID | None, vendor_ids: Sequence[UUID]
) -> list[dict[str, Any]]:
    vendors = _SELECT_NAMED_VENDORS.all(session, vendor_ids=list(vendor_ids))
    known_ids = {row["vendor_id"] for row in vendors}
    invalid_params = [
        InvalidParam(f"vendorIds[{index}]", "Vendor not found.")
        for index, vendor_id in enumerate(vendor_ids)
        if vendor_id not in known_ids
    ]
    if invalid_params:
        raise ValidationError("vendorIds names a vendor that does not exist.", invalid_params=invalid_params)
    if officer_id is not None and any(row["user_id"] == officer_id for row in vendors):
        raise ConflictOfInterestError("The batch would pay your own store, so another officer must stage it.")
    return vendors


def _find_skip_reason(row: dict[str, Any], holds: tuple[Hold, ...]) -> Hold | None:
    """Find the reason not to pay a vendor, as far as known before the balances are locked."""
    if not row["balance_minor"] and not row["waits"]:
        return Hold(NOTHING_TO_PAY)
    if holds:
        return holds[0]
    # The full balance is in a pending payout.
    return None if row["balance_minor"] else Hold(accounting.ALREADY_PENDING)


# A concurrent cancellation holds the lock: skip that request.
_LOCK_PENDING_REQUESTS = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status FROM payout_transfer_intents
        WHERE batch_id IS NULL AND status = 'pending' AND user_id IS DISTINCT FROM CAST(:officer_id AS uuid)
            AND (CAST(:vendor_ids AS uuid[]) IS NULL OR vendor_id = ANY(:vendor_ids))
        ORDER BY id LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED
        """
    ),
    row=accounting.Reservation,
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


def _add_requests_to_batch(
    session: Session,
    batch_id: UUID,
    officer_id: UUID | None,
    vendor_ids: Sequence[UUID] | None,
    *,
    now: datetime,
) -> list[accounting.Reservation]:
    """Add pending payout requests to the batch, except for payees on hold."""
    payouts = _LOCK_PENDING_REQUESTS.all(
        session,
        officer_id=officer_id,
        vendor_ids=None if vendor_ids is None else list(vendor_ids),
        limit=PAYEES_LIMIT,
    )
    holds = find_payout_holds(session, payouts=payouts, now=now)
    ready = [payout for payout in payouts if not holds[payout.id]]
    if ready:
        _ADD_REQUESTS_TO_BATCH.run(session, batch_id=batch_id, ids=[payout.id for payout in ready], now=now)
    return ready


def _notify_officers(
    session: Session, staged: StagingResult, *, stager_id: UUID | None, now: datetime
) -> None:
    """Notify the officers with the permission to approve the batch."""
    notify_all(
        session,
        notifications=[
            NewNotification(
                officer_id,
                "payout_batch_staged",
                texts.PAYOUT_BATCH_STAGED_TITLE,
                texts.PAYOUT_BATCH_STAGED_BODY.format(
                    payments=f"{staged.payments:,}", amount=format_naira(staged.amount_minor)
                ),
                f"/payouts/batches/{staged.batch_id}",
                f"payout_batch.staged:{staged.batch_id}",
            )
            for officer_id in list_officers_with_permission(
                session, permission=MANAGE_FINANCES, excluded_officer_id=stager_id
            )
        ],
        now=now,
    )
