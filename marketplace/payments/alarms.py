"""What of payments and refunds somebody must see to: each alert of theirs, raised and resolved here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert, resolve_others
from marketplace.alerts.queries import open_subjects
from marketplace.infra.db import Statement
from marketplace.ledger.queries import Violation
from marketplace.orders.transitions import LockedOrder
from marketplace.payments.drift import GATEWAY_BALANCE, raise_drift
from marketplace.payments.settled import Settled
from marketplace.providers.gateway import GatewayRefund

GATEWAY = "payment gateway"
# After its time is over an order is asked about every minute. What is unclear for so long stays so by itself.
STALLED_AFTER = timedelta(hours=2)
_MOST_STALLED = 500
_ROWS_SHOWN = 5
# What is over once a refund is sent, credited, or tried anew; that money moved twice, or may, is not.
_MENDED = (
    kinds.REFUND_STUCK,
    kinds.REFUND_REFUSED,
    kinds.REFUND_UNKNOWN,
    kinds.REFUND_AMOUNT_DIFFERS,
    kinds.REFUND_CAME_BACK,
)

_STALLED = Statement(
    text(
        """
        SELECT i.id, i.reference, i.status, i.amount_minor, min(o.expires_at) AS expired_at, count(*) AS orders
        FROM payment_intents i
            JOIN payment_allocations a ON a.intent_id = i.id
            JOIN orders o ON o.id = a.order_id
        WHERE i.status IN ('initialized', 'pending') AND a.live AND o.status = 'pending_payment'
            AND o.payment_status IS DISTINCT FROM 'quarantined' AND o.expires_at <= :before
        GROUP BY i.id ORDER BY min(o.expires_at), i.id LIMIT :most
        """
    )
)


def _about_refund(refund_id: UUID) -> str:
    return f"refund:{refund_id}"


def _facts_of_refund(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "refundId": row["id"],
        "orderId": row["order_id"],
        "amountMinor": row["amount_minor"],
        "attempt": row["attempt"],
        "status": row["status"],
    }


def refund_needs_finance(
    session: Session, row: dict[str, Any], *, status: str, refused_with: int | None, now: datetime
) -> None:
    """Raise that a refund failed, or needs something of somebody.

    :param row: the refund, locked
    :param status: what it is now
    :param refused_with: the HTTP status with which the gateway refused to send it, if it did
    """
    refused = {} if refused_with is None else {"refusedWith": refused_with}
    raise_alert(
        session,
        identifier=kinds.REFUND_STUCK if refused_with is None else kinds.REFUND_REFUSED,
        subject=_about_refund(row["id"]),
        title="A refund needs finance" if refused_with is None else "The gateway refused a refund",
        facts=_facts_of_refund(row) | {"status": status} | refused,
        now=now,
    )


def refund_sent_twice(session: Session, row: dict[str, Any], *, sent_at_try: int, now: datetime) -> None:
    """Raise that the gateway sent a refund which went another way already.

    :param row: the refund, locked
    :param sent_at_try: which try the gateway says that it sent
    """
    raise_alert(
        session,
        identifier=kinds.REFUND_SENT_TWICE,
        subject=_about_refund(row["id"]),
        title="A refund was paid twice",
        facts=_facts_of_refund(row) | {"sentAtTry": sent_at_try},
        now=now,
    )


def refund_twice_came_back(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """Resolve that a refund was paid twice."""
    resolve_alert(
        session,
        identifier=kinds.REFUND_SENT_TWICE,
        subject=_about_refund(refund_id),
        note="The money came back to the gateway.",
        now=now,
    )


def refund_id_differs(session: Session, row: dict[str, Any], *, told: GatewayRefund, now: datetime) -> None:
    """Raise that the gateway has our note of a refund under another id than it told us."""
    raise_alert(
        session,
        identifier=kinds.REFUND_ID_DIFFERS,
        subject=_about_refund(row["id"]),
        title="The gateway has a refund twice",
        facts=_facts_of_refund(row) | {"toldId": told.id, "toldStatus": told.status},
        now=now,
    )


def refund_came_back(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    """Raise that a refund failed after the gateway had said that it was sent."""
    raise_alert(
        session,
        identifier=kinds.REFUND_CAME_BACK,
        subject=_about_refund(row["id"]),
        title="A refund failed after it was sent",
        facts=_facts_of_refund(row),
        now=now,
    )


def refund_amount_differs(
    session: Session, row: dict[str, Any], *, told: GatewayRefund, now: datetime
) -> None:
    """Raise that the gateway tells of another amount than a refund has."""
    raise_alert(
        session,
        identifier=kinds.REFUND_AMOUNT_DIFFERS,
        subject=_about_refund(row["id"]),
        title="The gateway tells of another amount of a refund",
        facts=_facts_of_refund(row) | {"toldMinor": told.amount_minor, "toldStatus": told.status},
        now=now,
    )


def refund_unknown(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    """Raise that the gateway does not know a refund that it took.

    :param row: its id, attempt and the charge's reference
    """
    raise_alert(
        session,
        identifier=kinds.REFUND_UNKNOWN,
        subject=_about_refund(row["id"]),
        title="The gateway does not know a refund",
        facts={"refundId": row["id"], "attempt": row["attempt"], "reference": row["reference"]},
        now=now,
    )


def refund_known(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """Resolve that the gateway did not know a refund."""
    resolve_alert(
        session,
        identifier=kinds.REFUND_UNKNOWN,
        subject=_about_refund(refund_id),
        note="The gateway knows the refund.",
        now=now,
    )


def refund_moved_on(session: Session, *, refund_id: UUID, status: str, now: datetime) -> None:
    """Resolve what was amiss with a refund that is sent, credited or tried again.

    :param status: what it is now
    """
    resolve_alert(
        session,
        identifier=_MENDED,
        subject=_about_refund(refund_id),
        note=f"The refund is {status}.",
        now=now,
    )


def charge_quarantined(
    session: Session, settled: Settled, *, held_id: UUID, reason: str, now: datetime
) -> None:
    """Raise that a charge is held back.

    :param held_id: of its row
    :param reason: why
    """
    locked: Sequence[LockedOrder] = [*settled.waiting, *settled.over]
    raise_alert(
        session,
        identifier=kinds.CHARGE_QUARANTINED,
        subject=f"quarantine:{held_id}",
        title="A charge is held back",
        facts={
            "quarantineId": held_id,
            "reason": reason,
            "reference": settled.intent.reference,
            "amountMinor": settled.charge.amount_minor,
            "dueMinor": settled.due_minor,
            "currency": settled.charge.currency,
            "orderIds": [order.id for order in locked],
        },
        now=now,
    )


def quarantine_decided(session: Session, *, held_id: UUID, action: str, now: datetime) -> None:
    """Resolve that a charge is held back: finance has decided on it.

    :param action: what was decided
    """
    resolve_alert(
        session,
        identifier=kinds.CHARGE_QUARANTINED,
        subject=f"quarantine:{held_id}",
        note=f"Finance decided: {action}.",
        now=now,
    )


def gateway_unreachable(session: Session, *, waiting_since: datetime, now: datetime) -> None:
    """Raise that the gateway has not answered for minutes.

    :param waiting_since: when the time of the first order was over that can't be decided on
    """
    title = "The payment gateway does not answer"
    _of_gateway(session, kinds.GATEWAY_UNREACHABLE, title, {"waitingSince": waiting_since}, now=now)


def gateway_reached(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway does not answer."""
    _over_at_gateway(session, kinds.GATEWAY_UNREACHABLE, "The gateway answers.", now=now)


def gateway_key_refused(session: Session, *, status: int, now: datetime) -> None:
    """Raise that the gateway refuses our key.

    :param status: the HTTP status of its refusal
    """
    title = "The payment gateway refuses our key"
    _of_gateway(session, kinds.GATEWAY_KEY_REFUSED, title, {"status": status}, now=now)


def gateway_key_taken(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway refuses our key."""
    _over_at_gateway(
        session, kinds.GATEWAY_KEY_REFUSED, "The gateway took what it was told to send.", now=now
    )


def _of_gateway(
    session: Session, identifier: str, title: str, facts: dict[str, Any], *, now: datetime
) -> None:
    raise_alert(session, identifier=identifier, subject=GATEWAY, title=title, facts=facts, now=now)


def _over_at_gateway(session: Session, identifier: str, note: str, *, now: datetime) -> None:
    resolve_alert(session, identifier=identifier, subject=GATEWAY, note=note, now=now)


def books_checked(session: Session, violations: Sequence[Violation], *, now: datetime) -> None:
    """Raise ESCROW_DRIFT for each rule of the books that is broken, and resolve all others.

    A broken rule halts payouts; that it holds again does not resume them.

    :param violations: of a check of all rules, with the rows that break them
    """
    for violation in violations:
        raise_drift(
            session,
            subject=violation.rule,
            title="The books are not whole",
            facts={
                "rule": violation.rule,
                "rows": len(violation.rows),
                "first": violation.rows[:_ROWS_SHOWN],
            },
            found=violation.rows,
            now=now,
        )
    resolve_others(
        session,
        identifier=kinds.ESCROW_DRIFT,
        subjects=[*(violation.rule for violation in violations), GATEWAY_BALANCE],
        note="The rule holds.",
        now=now,
    )


def flag_stalled(session: Session, *, now: datetime) -> int:
    """Raise each payment that is unclear for hours, once, and resolve those that are over.

    Unclear is one of whose orders the time was over two hours ago, and which the gateway is still at, or can't be
    asked about: else the sweep of abandoned checkouts had ended it. At most 500 are looked at.

    :return: how many payments are unclear
    """
    rows = _STALLED.all(session, before=now - STALLED_AFTER, most=_MOST_STALLED)
    known = open_subjects(session, identifier=kinds.PAYMENT_STALLED)
    for row in rows:
        if _about_payment(row["id"]) not in known:
            raise_alert(
                session,
                identifier=kinds.PAYMENT_STALLED,
                subject=_about_payment(row["id"]),
                title="It is unclear whether something was paid",
                facts={
                    "intentId": row["id"],
                    "reference": row["reference"],
                    "status": row["status"],
                    "amountMinor": row["amount_minor"],
                    "orders": row["orders"],
                    "expiredAt": row["expired_at"],
                },
                now=now,
            )
    # Of more than are looked at, those beyond may be unclear still.
    if len(rows) < _MOST_STALLED:
        resolve_others(
            session,
            identifier=kinds.PAYMENT_STALLED,
            subjects=[_about_payment(row["id"]) for row in rows],
            note="The payment is settled or over.",
            now=now,
        )
    return len(rows)


def _about_payment(intent_id: UUID) -> str:
    return f"payment:{intent_id}"
