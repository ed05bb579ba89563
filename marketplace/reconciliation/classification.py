"""Classify differences between the gateway and the ledger: in transit, or a problem with a suggested action."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from marketplace.reconciliation import texts
from marketplace.reconciliation.matching import Difference

MISSING_IN_LEDGER = "missing_here"
MISSING_AT_GATEWAY = "missing_there"
AMOUNTS_DIFFER = "amounts_differ"
STATUS_DIFFERS = "status_differs"
PROBLEMS = (MISSING_IN_LEDGER, MISSING_AT_GATEWAY, AMOUNTS_DIFFER, STATUS_DIFFERS)

# Longer than the sweeps take to poll the gateway for missed events.
IN_TRANSIT_TOLERANCE = timedelta(hours=2)
# A settlement or chargeback may move money days before the gateway reports a final status.
SETTLEMENT_TOLERANCE = timedelta(days=3)

_FINAL_STATUSES = ("success", "processed", "failed", "reversed", "blocked", "rejected", "abandoned")

SUGGESTIONS = {
    "apply_charge": texts.SUGGESTION_APPLY_CHARGE,
    "look_up_charge": texts.SUGGESTION_LOOK_UP_CHARGE,
    "bear_refunded_charge": texts.SUGGESTION_BEAR_REFUNDED_CHARGE,
    "look_up_refund": texts.SUGGESTION_LOOK_UP_REFUND,
    "look_up_transfer": texts.SUGGESTION_LOOK_UP_TRANSFER,
    "look_up_movement": texts.SUGGESTION_LOOK_UP_MOVEMENT,
    "look_up_settlement": texts.SUGGESTION_LOOK_UP_SETTLEMENT,
    "look_up_booking": texts.SUGGESTION_LOOK_UP_BOOKING,
    "look_up_balance": texts.SUGGESTION_LOOK_UP_BALANCE,
    "compare_amounts": texts.SUGGESTION_COMPARE_AMOUNTS,
    "look_up_payout": texts.SUGGESTION_LOOK_UP_PAYOUT,
    "ask_about_refund": texts.SUGGESTION_POLL_REFUND,
    "ask_about_payout": texts.SUGGESTION_POLL_PAYOUT,
}
ACTIONS = tuple(SUGGESTIONS)


@dataclass(frozen=True)
class Classification:
    """The problem with an item, and the suggested action."""

    problem: str
    action: str


def classify(row: Difference, *, now: datetime) -> Classification | None:
    """Classify an item that differs between the gateway and the ledger.

    An item of this service may count as in transit for a while, because events and lists may be late.
    A charge, transfer or movement that this service does not know is a problem immediately.

    :param row: a row of ``matching.iterate_difference_pages``
    :param now: the time of the run
    :return: None if the item is in transit, or if the ledger caught up while the gateway was read
    """
    if row.difference_minor and row.here_now_minor == row.there_minor:
        return None
    if row.kind in _CLASSIFIERS:
        return _CLASSIFIERS[row.kind](row, now)
    return _CLASSIFICATIONS.get(row.kind, Classification(MISSING_AT_GATEWAY, "look_up_booking"))


def _classify_charge(row: Difference, now: datetime) -> Classification | None:
    if row.charge_known:
        if row.difference_minor and not row.there_minor:
            return Classification(MISSING_AT_GATEWAY, "look_up_booking")
        return Classification(AMOUNTS_DIFFER, "compare_amounts")
    if row.payment_known:
        return None if _is_recent(row, now) else Classification(MISSING_IN_LEDGER, "apply_charge")
    return Classification(
        MISSING_IN_LEDGER, "bear_refunded_charge" if row.there_minor <= 0 else "look_up_charge"
    )


def _classify_refund(row: Difference, now: datetime) -> Classification | None:
    if row.refund_id is None:
        return Classification(MISSING_AT_GATEWAY, "look_up_booking")
    return _classify_own_item(
        row, now, still_open=("pending", "submitted", "needs_attention"), action="ask_about_refund"
    )


def _classify_payout(row: Difference, now: datetime) -> Classification | None:
    if row.intent_id is None:
        return Classification(MISSING_AT_GATEWAY, "look_up_booking")
    # Neither the lists nor a look-up contain the transfer. The movements of the transfer, if any, cancel out.
    if row.difference_minor and row.here_status == "success" and row.there_status is None:
        return Classification(MISSING_AT_GATEWAY, "look_up_payout")
    return _classify_own_item(
        row, now, still_open=("pending", "submitted", "unknown"), action="ask_about_payout"
    )


def _classify_own_item(
    row: Difference, now: datetime, *, still_open: tuple[str, ...], action: str
) -> Classification | None:
    """Classify a refund or payout of this service.

    The gateway's balance changes when the item is sent, the ledger only when the result is known.
    """
    if (
        row.there_amount_minor not in (None, row.here_amount_minor)
        # Finance may have accepted different amounts.
        and (row.difference_minor or not row.accepted)
    ):
        return Classification(AMOUNTS_DIFFER, "compare_amounts")
    recent = _is_recent(row, now)
    if row.gateway_id is None:
        # The ledger says that the item was sent, but the gateway does not know the item.
        return None if recent and not row.difference_minor else Classification(MISSING_AT_GATEWAY, action)
    is_pending = row.here_status in still_open and row.there_status not in _FINAL_STATUSES
    if recent or (is_pending and row.there_minor < row.here_minor):
        return None
    if row.difference_minor and row.there_minor and row.here_minor:
        return Classification(AMOUNTS_DIFFER, "compare_amounts")
    return Classification(STATUS_DIFFERS, action)


def _classify_settlement(row: Difference, now: datetime) -> Classification | None:
    if not row.there_minor:
        return Classification(MISSING_AT_GATEWAY, "look_up_settlement")
    if row.here_minor:
        return Classification(AMOUNTS_DIFFER, "compare_amounts")
    is_pending = row.there_status is None or row.there_status not in _FINAL_STATUSES
    if is_pending and row.moved_at is not None and now - row.moved_at < SETTLEMENT_TOLERANCE:
        return None
    return Classification(MISSING_IN_LEDGER, "look_up_settlement")


def _classify_chargeback(row: Difference, now: datetime) -> Classification | None:
    """Classify a chargeback: the gateway may move the money before the dispute ends, or days after a loss."""
    if row.here_status == "open":
        return None
    if now - max(at for at in (row.moved_at, row.booked_at) if at) < SETTLEMENT_TOLERANCE:
        return None
    if not row.there_minor:
        return Classification(MISSING_AT_GATEWAY, "look_up_booking")
    return Classification(AMOUNTS_DIFFER if row.here_minor else MISSING_IN_LEDGER, "compare_amounts")


def _classify_unrecognized_refund(row: Difference, now: datetime) -> Classification | None:
    # The refund belongs to a chargeback, whose event is still expected.
    is_awaited = row.dispute_id and _is_recent(row, now)
    return None if is_awaited else Classification(MISSING_IN_LEDGER, "look_up_refund")


def _classify_movement(row: Difference, _now: datetime) -> Classification:
    if row.there_minor:
        return Classification(MISSING_IN_LEDGER, "look_up_movement")
    return Classification(MISSING_AT_GATEWAY, "look_up_booking")


_CLASSIFIERS = {
    "charge": _classify_charge,
    "refund": _classify_refund,
    "payout": _classify_payout,
    "settlement": _classify_settlement,
    "dispute": _classify_chargeback,
    "gateway-refund": _classify_unrecognized_refund,
    "movement": _classify_movement,
}
_CLASSIFICATIONS = {
    "gateway-transfer": Classification(MISSING_IN_LEDGER, "look_up_transfer"),
    "balance": Classification(AMOUNTS_DIFFER, "look_up_balance"),
}
EXCEPTION_KIND_OF_ITEM = {
    "charge": "charge",
    "refund": "refund",
    "gateway-refund": "refund",
    "payout": "transfer",
    "gateway-transfer": "transfer",
    "settlement": "settlement",
    "dispute": "dispute",
    "movement": "movement",
    "balance": "balance",
}


def _is_recent(row: Difference, now: datetime) -> bool:
    """Return whether the latest change on either side is within the in-transit tolerance."""
    latest = max((at for at in (row.moved_at, row.changed_at, row.booked_at) if at), default=None)
    return latest is not None and now - latest < IN_TRANSIT_TOLERANCE
