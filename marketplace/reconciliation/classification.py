"""Judging differences: which are only on their way, what is wrong with the others, and what is to be done about it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from marketplace.reconciliation.matching import Difference

MISSING_IN_LEDGER = "missing_here"
MISSING_AT_GATEWAY = "missing_there"
AMOUNTS_DIFFER = "amounts_differ"
STATUS_DIFFERS = "status_differs"
PROBLEMS = (MISSING_IN_LEDGER, MISSING_AT_GATEWAY, AMOUNTS_DIFFER, STATUS_DIFFERS)

# Longer than the sweeps take to ask the gateway about what its events left open.
IN_TRANSIT_TOLERANCE = timedelta(hours=2)
# What was moved for something that the gateway itself calls unfinished may be so for days.
SETTLEMENT_TOLERANCE = timedelta(days=3)

_FINAL_STATUSES = ("success", "processed", "failed", "reversed", "blocked", "rejected", "abandoned")

# What an officer is told to do, by what is suggested.
SUGGESTIONS = {
    "apply_charge": "The buyer paid, and we do not have it. Resolve it with `ask`: the gateway is asked, and the charge"
    " applied as its event would have been. See why the event did not come (`marketplace webhooks list`).",
    "look_up_charge": "No payment of ours has this reference. Look the charge up at the gateway: refund it there, and"
    " the next run judges both together; or resolve it with `own_funds` if the money is the company's.",
    "bear_refunded_charge": "No payment of ours has this reference, and it was refunded at the gateway, which kept its"
    " fee. Resolve it with `gateway_cost`, or with `own_funds` where it is more than a fee.",
    "look_up_refund": "It was made by hand at the gateway, not by this service, which may refund the same again. See"
    " the order's refunds first; then resolve it with `own_funds`, or have the gateway take it back.",
    "look_up_transfer": "This service did not send it. Find out at the gateway who did; if nobody of yours, change the"
    " secret key there and here. Then resolve it with `own_funds`.",
    "look_up_movement": "It comes of no charge, refund, transfer or settlement. Ask the gateway what it is; resolve it"
    " with `own_funds` if it is the company's own money, or `gateway_cost` if it is a charge of the gateway's.",
    "look_up_settlement": "The gateway moved it to the bank, and its list does not say that it arrived. Compare it with"
    " the bank's statement; the next run books it once the gateway calls it a success.",
    "look_up_booking": "The books have it, and the gateway never moved it. `marketplace ledger verify`, and who posted"
    " it; a correction is a new transaction: resolve it with `own_funds` once that is clear.",
    "look_up_balance": "The gateway's balance is not the sum of its own movements. Ask the gateway.",
    "compare_amounts": "Compare both at the gateway. What is the gateway's to correct, it corrects; else resolve it"
    " with `own_funds` or `gateway_cost`.",
    "look_up_payout": "The books have that it was paid, and the gateway does not have it: asking it again tells no"
    " more. Find out with the gateway's support whether it was paid. If it certainly was not, resolve it with"
    " `came_back`: its payee has the money back in the balance. Never send it once more by hand.",
    "ask_about_refund": "Resolve it with `ask`: the gateway is asked about the refund, and its word taken.",
    "ask_about_payout": "Resolve it with `ask`: the gateway is asked about the payout by its reference, and its word"
    " taken. Never send it once more by hand.",
}
ACTIONS = tuple(SUGGESTIONS)


@dataclass(frozen=True)
class Classification:
    """What is wrong with an item, and what is suggested."""

    problem: str
    action: str


def classify(row: Difference, *, now: datetime) -> Classification | None:
    """Judge an item that is otherwise there than here.

    What both sides know, and one of them has heard of later, is on its way as long as that may take: neither drift nor
    worth anybody's time. What one side does not know at all is told at once.

    :param row: as ``matching.iterate_difference_pages`` gives it
    :param now: the moment of the run
    :return: none if it is on its way, or was when the gateway was read
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
    # Its lists and its own answer have nothing of it: what was moved for it, if anything, was moved back.
    if row.difference_minor and row.here_status == "success" and row.there_status is None:
        return Classification(MISSING_AT_GATEWAY, "look_up_payout")
    return _classify_own_item(
        row, now, still_open=("pending", "submitted", "unknown"), action="ask_about_payout"
    )


def _classify_own_item(
    row: Difference, now: datetime, *, still_open: tuple[str, ...], action: str
) -> Classification | None:
    """Judge what this service sent: the gateway takes the money at once, and the books go by the result."""
    if (
        row.there_amount_minor not in (None, row.here_amount_minor)
        # Finance may have explained amounts that differ.
        and (row.difference_minor or not row.accepted)
    ):
        return Classification(AMOUNTS_DIFFER, "compare_amounts")
    recent = _is_recent(row, now)
    if row.gateway_id is None:
        # The books say that it left, or that the gateway took it, and there it is unknown.
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
    """Judge what a bank took: at the gateway it may leave before the dispute is over, and days after it was lost."""
    if row.here_status == "open":
        return None
    if now - max(at for at in (row.moved_at, row.booked_at) if at) < SETTLEMENT_TOLERANCE:
        return None
    if not row.there_minor:
        return Classification(MISSING_AT_GATEWAY, "look_up_booking")
    return Classification(AMOUNTS_DIFFER if row.here_minor else MISSING_IN_LEDGER, "compare_amounts")


def _classify_unrecognized_refund(row: Difference, now: datetime) -> Classification | None:
    # A bank took it: the event of the dispute tells us.
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
    """Tell whether the latest that either side did with it is so young that the other may not have heard of it."""
    latest = max((at for at in (row.moved_at, row.changed_at, row.booked_at) if at), default=None)
    return latest is not None and now - latest < IN_TRANSIT_TOLERANCE
