"""A batch as an officer reads it before approving it: each payment with what is risky in it, the riskiest first."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.payouts import states
from marketplace.payouts.batches import risk_flags
from marketplace.payouts.batches.queries import show_batch
from marketplace.payouts.batches.risk_flags import PaymentFacts, find_risk_flags
from marketplace.payouts.batches.staging import PAYEES_LIMIT
from marketplace.payouts.payees.bank_accounts import mask_account_number
from marketplace.payouts.payees.holds import Hold, find_payout_holds
from marketplace.platform.halts import are_payouts_halted

ANY_RISK = "any"
_CHANGES_LIMIT = 100

# One pass over the batch; what is asked of each payee is found by an index.
_SELECT_PAYMENTS = Statement(
    text(
        """
        WITH disputed AS (
            SELECT vendor_id, count(*) AS disputes FROM (
                SELECT o.id, o.vendor_id FROM orders o WHERE o.status = 'disputed'
                UNION SELECT o.id, o.vendor_id FROM charge_disputes d
                    JOIN payment_allocations l ON l.intent_id = d.intent_id JOIN orders o ON o.id = l.order_id
                WHERE d.status = 'open'
            ) found GROUP BY vendor_id
        )
        SELECT i.id, i.user_id, i.vendor_id, i.amount_minor, i.status, i.asked_for, i.failure_reason, i.stalled_at,
            i.created_at, i.updated_at, p.name, p.account_status, v.display_name, v.slug, v.status AS store_status,
            a.id AS account_id, a.bank_code, a.bank_name, a.account_number, a.account_name,
            a.created_at AS account_since, s.id AS staged_id, s.bank_code AS staged_bank_code,
            s.bank_name AS staged_bank_name, s.account_number AS staged_account_number,
            s.account_name AS staged_account_name, s.created_at AS staged_account_since,
            coalesce(h.arrived, 0) AS arrived, h.usual_minor, h.largest_minor, h.last_paid_at,
            coalesce(l.failed, false) AS last_failed, coalesce(disputed.disputes, 0) AS disputes,
            coalesce(debt.balance_minor, 0) AS owes_minor, i.status = 'pending' AND t.sent_at IS NULL AS waits
        FROM payout_transfer_intents i
            JOIN profiles p ON p.id = i.user_id
            JOIN payout_accounts s ON s.id = i.account_id
            LEFT JOIN payout_transfers t ON t.intent_id = i.id
            LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL
            LEFT JOIN disputed ON disputed.vendor_id = i.vendor_id
            LEFT JOIN ledger_accounts debt ON debt.kind = 'vendor_receivable' AND debt.owner_id = i.vendor_id
            LEFT JOIN LATERAL (
                SELECT count(*) AS arrived, avg(amount_minor)::bigint AS usual_minor,
                    max(amount_minor) AS largest_minor, max(updated_at) AS last_paid_at
                FROM (SELECT amount_minor, updated_at FROM payout_transfer_intents x
                    WHERE x.user_id = i.user_id AND x.vendor_id IS NOT DISTINCT FROM i.vendor_id
                        AND x.status = 'success' AND x.id < i.id ORDER BY x.id DESC LIMIT :history) latest
            ) h ON true
            LEFT JOIN LATERAL (
                SELECT x.status IN ('failed', 'reversed') AS failed FROM payout_transfer_intents x
                WHERE x.user_id = i.user_id AND x.vendor_id IS NOT DISTINCT FROM i.vendor_id
                    AND x.status IN ('success', 'failed', 'reversed') AND x.id < i.id ORDER BY x.id DESC LIMIT 1
            ) l ON true
        WHERE i.batch_id = :batch_id
        ORDER BY i.id LIMIT :limit
        """
    )
)


def show_batch_detail(
    session: Session, *, batch_id: UUID, risk: str | None, page: PageRequest, now: datetime
) -> Page:
    """Show a batch with its payments, those with the most risks, then the largest, first.

    :param batch_id: which
    :param risk: only payments with this one of ``RISK_FLAGS``, or with ``any``; none for all
    :param page: which of its payments
    :param now: the time of the request
    :return: a page of payments; its data are the batch's
    :raises NotFoundError: there is no such batch
    """
    batch = show_batch(session, batch_id=batch_id)
    # Payments that were called off may be more than the bound lets in; they would be as many again at most.
    rows = _SELECT_PAYMENTS.all(
        session, batch_id=batch_id, history=risk_flags.HISTORY_LENGTH, limit=2 * PAYEES_LIMIT
    )
    holds = (
        find_payout_holds(session, payouts=rows, now=now)
        if batch["status"] in (states.STAGED, states.APPROVED, states.DISPATCHING)
        else {}
    )
    payments = [_serialize_payment(row, holds.get(row["id"], ()), now=now) for row in rows]
    paid = [payment for payment in payments if payment["status"] != states.CANCELLED]
    listed = sorted(
        (
            payment
            for payment in paid
            if risk is None or (payment["risks"] if risk == ANY_RISK else risk in payment["risks"])
        ),
        key=_sort_key,
    )
    shown = _paginate(listed, page)
    data = {
        **batch,
        "halted": are_payouts_halted(session),
        "statuses": _sum_by_status(payments),
        "risks": _sum_by_risk(paid),
        "changes": _list_changes_since_staging(payments)[:_CHANGES_LIMIT],
        "intents": shown.items,
    }
    return Page(shown.items, shown.limit, shown.next_position, data=data)


def _sort_key(payment: dict[str, Any]) -> tuple[int, int, str]:
    return -len(payment["risks"]), -payment["amountMinor"], str(payment["id"])


def _paginate(listed: Sequence[dict[str, Any]], page: PageRequest) -> Page:
    count, minor, last = page.after("number", "number", "id")
    if page.position is not None:
        listed = [payment for payment in listed if _sort_key(payment) > (count, minor, last)]
    return page_of(
        list(listed[: page.limit + 1]), request=page, position_of=lambda payment: [*_sort_key(payment)]
    )


def _serialize_payment(row: dict[str, Any], holds: tuple[Hold, ...], *, now: datetime) -> dict[str, Any]:
    is_pending = row["waits"]
    is_staged_account = row["account_id"] == row["staged_id"]
    # What was sent went to the account that was approved, whatever the payee has now.
    current = is_pending and row["account_id"] is not None
    facts = PaymentFacts(
        amount_minor=row["amount_minor"],
        account_name=row["account_name"] if current else row["staged_account_name"],
        account_since=row["account_since"] if current else row["staged_account_since"],
        is_staged_account=is_staged_account or not is_pending,
        expected_names=(row["display_name"], row["name"]),
        successful_payouts=row["arrived"],
        average_minor=row["usual_minor"],
        last_failed=row["last_failed"],
        disputes=row["disputes"],
        active=row["account_status"] == "active" and row["store_status"] in (None, "active"),
        debt_minor=row["owes_minor"],
        holds=holds if is_pending else (),
    )
    return {
        "id": row["id"],
        "payee": {
            "userId": row["user_id"],
            "vendorId": row["vendor_id"],
            "name": row["name"],
            "storeName": row["display_name"],
            "storeSlug": row["slug"],
        },
        "source": "wallet" if row["vendor_id"] is None else "vendor",
        "amountMinor": row["amount_minor"],
        "status": row["status"],
        "askedFor": row["asked_for"],
        "account": _serialize_account(row, "" if current else "staged_"),
        "stagedAccount": None if facts.is_staged_account else _serialize_account(row, "staged_"),
        "risks": find_risk_flags(facts, now=now),
        "holds": [{"reason": hold.reason, "until": hold.until} for hold in facts.holds],
        "history": {
            "payments": row["arrived"],
            "averageMinor": row["usual_minor"],
            "largestMinor": row["largest_minor"],
            "lastPaidAt": row["last_paid_at"],
        },
        "disputes": row["disputes"],
        "owesMinor": row["owes_minor"],
        "failureReason": row["failure_reason"],
        "stalledAt": row["stalled_at"],
        "createdAt": row["created_at"],
        "updatedAt": row["updated_at"],
    }


def _serialize_account(row: dict[str, Any], prefix: str) -> dict[str, Any]:
    since = row["account_since"] if not prefix else row["staged_account_since"]
    return {
        "id": row["account_id"] if not prefix else row["staged_id"],
        "bankCode": row[f"{prefix}bank_code"],
        "bankName": row[f"{prefix}bank_name"],
        "accountNumber": mask_account_number(row[f"{prefix}account_number"]),
        "accountName": row[f"{prefix}account_name"],
        "since": since,
    }


def _sum_by_status(payments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum the payments up by their status, in the order of the life of one."""
    counts: Counter[str] = Counter()
    minor: Counter[str] = Counter()
    for payment in payments:
        counts[payment["status"]] += 1
        minor[payment["status"]] += payment["amountMinor"]
    return [
        {"status": status, "payments": counts[status], "amountMinor": minor[status]}
        for status in sorted(counts)
    ]


def _sum_by_risk(payments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum the payments up by what is risky in them, in the order of ``RISK_FLAGS``; what is in none is left out."""
    sums = []
    for risk, meaning in risk_flags.RISK_FLAGS.items():
        amounts = [payment["amountMinor"] for payment in payments if risk in payment["risks"]]
        if amounts:
            sums.append(
                {"risk": risk, "meaning": meaning, "payments": len(amounts), "amountMinor": sum(amounts)}
            )
    return sums


def _list_changes_since_staging(payments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tell what of the batch is not any more as it was staged."""
    changes = []
    for payment in payments:
        if payment["status"] == states.CANCELLED:
            change = "called_off"
        elif payment["stagedAccount"] is not None:
            change = risk_flags.ACCOUNT_CHANGED
        else:
            continue
        changes.append(
            {
                "intentId": payment["id"],
                "change": change,
                "payee": payment["payee"],
                "amountMinor": payment["amountMinor"],
                "at": payment["updatedAt"] if change == "called_off" else payment["account"]["since"],
            }
        )
    return changes
